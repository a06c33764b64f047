"""The pipeline file during a run: whether it has changed, what of that a run applies, and what it cannot."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from changeling.pipelines.definition import Definition, FilesSource, KafkaSource, PostgresSource, TableRule
from changeling.pipelines.loading import LoadedPipeline, load

_FIXED = ("name", "warehouse", "spark", "catalog")
"""A run begins with them."""
_PLAIN = ("settle", "retention")


@dataclass(frozen=True)
class FileChange:
    """A changed pipeline: as a run continues with it, and the difference in words."""

    loaded: LoadedPipeline
    taken: list[str]
    left: list[str]


class WatchedFile:
    """The file of a pipeline and the schema files that it names."""

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._loaded, self._path = loaded, loaded.path
        self._known = self._seen = self._versions()

    def applied(self, change: FileChange) -> None:
        """A change was applied: the next one is found from there."""
        self._loaded = change.loaded
        self._known = self._seen = {
            # What was changed since it was read is new.
            file: self._known.get(file, version)
            for file, version in self._versions().items()
        }

    def change(self) -> FileChange | None:
        """What is new since the last call, once the files are no longer being written; None where nothing is.

        Raises `UsageError`, once, where the file cannot be used as it is now.
        """
        now = self._versions()
        is_settled, self._seen = now == self._seen, now
        if now == self._known or not is_settled:
            return None
        read = [file.name for file, version in now.items() if version != self._known.get(file) and file != self._path]
        self._known = now
        found = load(self._path)
        before, after = self._loaded.definition, found.definition
        adopted = replace(
            found,
            definition=msgspec.structs.replace(after, **{name: getattr(before, name) for name in _FIXED}),
            secrets=tuple(dict.fromkeys((*self._loaded.secrets, *found.secrets))),
        )
        taken = [*_taken(before, after), *(f"schema file {name}" for name in read)]
        return FileChange(adopted, taken, list(_left(before, after)))

    def _versions(self) -> dict[Path, tuple[int, ...] | None]:
        files = [self._path, *map(Path, _schema_files(self._loaded))]
        return {file: _version(file) for file in files}


def _schema_files(loaded: LoadedPipeline) -> Iterator[str]:
    for source in loaded.definition.sources:
        if isinstance(source, FilesSource | KafkaSource) and source.schema_file is not None:
            yield loaded.resolve(source.schema_file)


def _version(file: Path) -> tuple[int, ...] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _taken(before: Definition, after: Definition) -> Iterator[str]:
    for kind in ("source", "feed", "target"):
        was = {one.name: one for one in getattr(before, f"{kind}s")}
        now = {one.name: one for one in getattr(after, f"{kind}s")}
        yield from (f"{kind} {name} (new)" for name in now if name not in was)
        yield from (f"{kind} {name} (changed)" for name in now if name in was and was[name] != now[name])
        for name in was:
            if name not in now:
                stays = "; its slot stays on the server" if isinstance(was[name], PostgresSource) else ""
                yield f"{kind} {name} (no longer in the file{stays})"
    if before.tables != after.tables:
        yield f"rules of {', '.join(_different(before.tables, after.tables))}"
    for name in _PLAIN:
        if getattr(before, name) != getattr(after, name):
            yield f"{name} {getattr(after, name)}"


def _different(before: Iterable[TableRule], after: Iterable[TableRule]) -> list[str]:
    """The tables of rules that only one of the two has; all of them where only their order differs."""
    old, new = list(before), list(after)
    rules = [rule for rule in [*old, *new] if (rule in old) != (rule in new)] or new
    return list(dict.fromkeys(rule.name for rule in rules))


def _left(before: Definition, after: Definition) -> Iterator[str]:
    for name in _FIXED:
        if getattr(before, name) != getattr(after, name):
            yield f"{name} (a run begins with it: stop it and run again)"
