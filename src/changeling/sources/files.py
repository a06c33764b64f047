"""Files as a source: each is read once, whatever its age, and one that changes later is reported."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from changeling.files import paths
from changeling.files.paths import FileRef, NoFileFound
from changeling.files.reading import Carrier
from changeling.model.printable import printable
from changeling.sources import files_plan
from changeling.sources.files_plan import File
from changeling.sources.source import Input, KnownSchema, PlanSize, Records
from changeling.spark.files import FileRecords, reader_of


class FilesSource:
    """The files of a path, folder or pattern. Paths are stored relative to `folder`."""

    def __init__(
        self, records: Records, path: str, folder: Path, *, carrier: Carrier, batch_bytes: int, batch_files: int
    ) -> None:
        self.name, self.format, self.options = records.source, records.format, records.options
        self._path, self._folder, self._carrier = path, folder, carrier
        self._max_bytes, self._max_files = batch_bytes, batch_files
        self._known: dict[str, File] = {}
        self._warnings: list[str] = []
        self._reported: set[File] = set()
        self._present: set[str] | None = None
        self._warned: set[str] = set()
        self._changing: dict[str, File] = {}
        self._planned: str | None = None
        self.has_more = False

    def remember(self, plan: str) -> None:
        """The files of a plan are not planned again."""
        for file in files_plan.parse_plan(plan).files:
            self._known[file.path] = file

    def plan_next(self) -> str | None:
        """The new files in the order of their names, up to the limits of a batch; at least one."""
        chosen: list[File] = []
        self.has_more, size = False, 0
        for file in self._listed():
            if self._present is not None and file.path not in self._present:
                continue
            known = self._known.get(file.path)
            if known is not None:
                self._report(known, file)
                continue
            if self._is_changing(file):
                self.has_more = True
                continue
            size += file.size or 0
            if chosen and (size > self._max_bytes or len(chosen) == self._max_files):
                self.has_more = True
                break
            chosen.append(file)
        if not chosen:
            return None
        plan = self._plan(chosen)
        # A file that changes before it is read is still being written.
        self._planned = plan
        return plan

    @property
    def took_all(self) -> bool:
        """Whether the last plan has all that there was then."""
        return not self.has_more

    def stop_at_present(self) -> None:
        """Files that appear later are left for another run."""
        self._present = {file.path for file in self._listed()}

    def stop_at(self, position: int) -> None:
        """Not supported: files have no log positions."""
        raise AssertionError("only a database has a log with positions")

    def nothing(self) -> str:
        """A plan without files."""
        return self._plan([])

    def broken(self, plan: str) -> str | None:
        """Which file no longer exists as it was planned."""
        for file, place in zip(planned := files_plan.parse_plan(plan).files, self._places(planned), strict=True):
            if what := paths.changed(place):
                if plan == self._planned:
                    self._changing[file.path] = file
                return f"{place.path} changed before it was read: {what}"
        return None

    def input(self, spark: SparkSession, plan: str) -> Input:
        """The files are opened in the tasks, or by the driver where they are small."""
        first, places = self.planned(plan)
        reader = reader_of(spark, places, FileRecords(self.format, self.options, self.carrier), first=first)
        return Input(reader.frame(spark), reader, driver_rows=reader.few())

    def planned(self, plan: str) -> tuple[int, list[FileRef]]:
        """The number of a plan's first file among all files of the source, and its files."""
        read = files_plan.parse_plan(plan)
        return read.first, self._places(read.files)

    @property
    def carrier(self) -> Carrier:
        """How records are framed in the files."""
        return self._carrier

    def known_schemas(self, plan: str) -> list[KnownSchema]:
        """Empty: records carry their schemas."""
        return []

    def plan_size(self, plan: str) -> PlanSize:
        """Files and bytes."""
        files = files_plan.parse_plan(plan).files
        return PlanSize(bytes=sum(file.size or 0 for file in files), files=len(files))

    def close(self) -> None:
        """Nothing is kept open between batches."""

    def warnings(self) -> list[str]:
        """Files that changed after they were read, and a path that matches nothing."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def _plan(self, files: list[File]) -> str:
        return msgspec.json.encode(files_plan.FilesPlan(len(self._known), tuple(files))).decode()

    def _is_changing(self, file: File) -> bool:
        """Whether it may still be written: it was seen changing, and differs from when it was last listed."""
        before = self._changing.pop(file.path, file)
        if before != file:
            self._changing[file.path] = file
        return before != file

    def _listed(self) -> Sequence[File]:
        path = files_plan.absolute(self._path, self._folder)
        try:
            found = paths.expand([path], self._pass_over)
        except NoFileFound as error:
            folder = paths.missing_folder(path)
            if not self._known:
                self._warn(str(error))
            elif folder is not None and files_plan.relative(folder, self._folder) not in self._known:
                # The folder may come back, after a remount say, with files that are not visible now.
                self.has_more = True
                self._warn(f"{printable(folder)}: the folder is gone; its files are read when it is there again")
            return []
        return [File(files_plan.relative(place.path, self._folder), place.size, place.tag) for place in found]

    def _pass_over(self, what: str) -> None:
        self._warn(f"{what}: it is skipped")

    def _warn(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self._warnings.append(what)

    def _places(self, files: Sequence[File]) -> list[FileRef]:
        return [FileRef(files_plan.absolute(file.path, self._folder), file.size, file.tag) for file in files]

    def _report(self, known: File, now: File) -> None:
        if known == now or now in self._reported:
            return
        self._reported.add(now)
        what = f"it had {known.size:,} bytes and has {now.size:,}" if known.size != now.size else "it was written again"
        self._warnings.append(
            f"{now.path} changed after it was read ({what}); only its first version is in the log: "
            "give the new version another name to have it read"
        )
