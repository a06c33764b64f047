"""The options of the data source, as texts that Spark passes on, checked."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeVar

import msgspec
import pyarrow as pa

from changeling.files.reading import Carrier
from changeling.formats import registry
from changeling.formats.format import read_options
from changeling.formats.options import ReadOptions
from changeling.model import arrow_layouts
from changeling.model.errors import UsageError, nearest
from changeling.spark.rows_and_rejects import Shows

_UNLIMITED = 2**62
_KAFKA = "kafka."
_ELSEWHERE = {"paths": "read several places with a pattern, or with one frame each"}
_Place = TypeVar("_Place", bound="FilesPlace | KafkaPlace")


class Rejects(StrEnum):
    """What becomes of records that cannot be decoded."""

    FAIL = "fail"
    """The first one ends the query."""
    SKIP = "skip"
    ONLY = "only"
    """They are the rows, without the changes."""
    INCLUDE = "include"
    """They are rows as well, in the column `reject`."""


class FilesPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files to read: a file, a folder, or a pattern; limits of the batches of a stream."""

    path: str
    carrier: Carrier = "plain"
    batch_bytes: int = _UNLIMITED
    batch_files: int = _UNLIMITED


class KafkaPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics to read: names and patterns, separated by commas; the limit of the batches of a stream."""

    servers: str
    topics: str
    start: Literal["earliest", "latest"] = "earliest"
    on_gap: Literal["fail", "skip"] = "fail"
    batch_records: int = _UNLIMITED
    settings: dict[str, str] = {}
    """Those of Kafka's clients: options that begin with `kafka.`, without that."""


class Settings(msgspec.Struct, frozen=True):
    """What to read, and how."""

    format: str
    options: ReadOptions
    place: FilesPlace | KafkaPlace
    rejects: Rejects
    plans: str | None
    """Where a stream notes what it is going to read."""

    @property
    def part(self) -> Shows:
        """What the tasks have to show."""
        return {Rejects.SKIP: Shows.ROWS, Rejects.ONLY: Shows.REJECTS}.get(self.rejects, Shows.BOTH)

    @property
    def layout(self) -> pa.Schema:
        """The columns of the rows."""
        return arrow_layouts.CHANGES if self.rejects is Rejects.FAIL else self.part.layout(arrow_layouts.CHANGES)


def parse(options: Mapping[str, str]) -> Settings:
    """The settings of Spark's options, whose names are not case-sensitive; raises `UsageError` that names the wrong one."""
    given = {name.lower(): value for name, value in options.items()}
    for name, instead in _ELSEWHERE.items():
        if name in given:
            raise UsageError(f"there is no option {name!r}: {instead}")
    if "format" not in given:
        raise UsageError(f"say what the records are: .option('format', …), one of {', '.join(registry.names())}")
    form = registry.get(given.pop("format"))
    rejects, plans = given.pop("rejects", "fail"), given.pop("plans", None)
    if rejects not in list(Rejects):
        raise UsageError(f"there is no rejects = {rejects!r}; {nearest(rejects, [one.value for one in Rejects])}")
    if ("path" in given) == ("servers" in given):
        raise UsageError(
            "say where the records are: load(PATH) for files, or the options 'servers' and 'topics' for Kafka"
        )
    kind = FilesPlace if "path" in given else KafkaPlace
    clients = {name.removeprefix(_KAFKA): given.pop(name) for name in list(given) if name.startswith(_KAFKA)}
    if clients and kind is FilesPlace:
        raise UsageError(f"the option {_KAFKA}{next(iter(clients))!s} is for Kafka, and files are read")
    own = {name: given.pop(name) for name in kind.__struct_fields__ if name in given}
    place = _built(kind, {**own, **({"settings": clients} if clients else {})})
    return Settings(form.name, read_options(form, given), place, Rejects(rejects), plans)


def _built(kind: type[_Place], given: Mapping[str, object]) -> _Place:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"the options of the data source: {error}") from None
