"""Where an output goes: nothing appears at its path before it is complete."""

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Protocol, Self

from changeling.files import s3
from changeling.model.errors import UsageError
from changeling.model.printable import printable

STDOUT = "-"
_UNFINISHED = ".part"


class _Target(Protocol):
    file: Any

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class Output:
    """`with Output(path) as out: out.write(...)`: a file, an object of S3 (`s3://bucket/key`), or `-` for standard output.

    The output appears at its path when the block ends without an error. If the block raises, nothing appears, and an earlier
    file stays (only standard output cannot take back what was written). A name that ends in `.gz` is compressed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._target: _Target | None = None
        # Without a time and a name in the header, the same records give the same bytes.
        self._packer = zlib.compressobj(6, zlib.DEFLATED, wbits=31) if path.endswith(".gz") else None

    def __enter__(self) -> Self:
        self._target = _target(self.path)
        return self

    def write(self, data: bytes) -> None:
        """Appends bytes."""
        assert self._target is not None, "used outside of its with block"
        with _naming_errors(self.path):
            self._target.file.write(data if self._packer is None else self._packer.compress(data))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        target, self._target = self._target, None
        if target is None:
            return
        try:
            if kind is None:
                with _naming_errors(self.path):
                    if self._packer is not None:
                        target.file.write(self._packer.flush())
                    target.finish()
                return
        except BaseException:
            target.abandon()
            raise
        target.abandon()


@contextlib.contextmanager
def _naming_errors(path: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        with s3.naming_errors(path):
            raise OSError(error.strerror or str(error)) from None


def _target(path: str) -> _Target:
    if path == STDOUT:
        return _Direct(sys.stdout.buffer, ours=False)
    if path.startswith(s3.SCHEME):
        return _Object(path)
    with _naming_errors(path):
        if os.path.isdir(path):
            raise UsageError(f"{printable(path)}: is a folder; name a file in it")
        if os.path.exists(path) and not os.path.isfile(path):
            return _Direct(open(path, "wb"), ours=True)  # closed by finish
        return _Renamed(path)


class _Direct:
    """Standard output, or a device or pipe: written at once, since there is nothing to rename."""

    def __init__(self, file: IO[bytes], ours: bool) -> None:
        self.file = file
        self._ours = ours

    def finish(self) -> None:
        self.file.flush()
        if self._ours:
            self.file.close()

    def abandon(self) -> None:
        if self._ours:
            with contextlib.suppress(OSError):
                self.file.close()


class _Renamed:
    """A file under a hidden name in the same folder, until it is done."""

    def __init__(self, path: str) -> None:
        # Through a link, so that the link stays one.
        self._path = os.path.realpath(path)
        folder, name = os.path.split(self._path)
        os.makedirs(folder, exist_ok=True)
        self._hidden = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}{_UNFINISHED}")
        self.file = open(self._hidden, "xb")  # noqa: SIM115  # closed by finish or abandon
        if os.path.exists(self._path):
            shutil.copymode(self._path, self._hidden)

    def finish(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self._hidden, self._path)
        _sync_folder(os.path.dirname(self._path))

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._hidden)


def _sync_folder(folder: str) -> None:
    """A name is on the disk only when its folder is."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove_unfinished(folder: str) -> None:
    """Removes what killed processes left of files in a local folder; nobody else may be writing there."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(".") and entry.name.endswith(_UNFINISHED):
                os.remove(entry.path)


class _Object:
    """An object of S3: the store shows it when the upload is finished."""

    def __init__(self, address: str) -> None:
        bucket, key = s3.bucket_and_key(address)
        if not key or key.endswith("/"):
            raise UsageError(f"{address}: is a folder; name an object in it")
        s3.check_bucket(bucket)
        with s3.naming_errors(address):
            self.file = s3.filesystem(upload=True).open_output_stream(f"{bucket}/{key}", compression=None)

    def finish(self) -> None:
        self.file.close()

    def abandon(self) -> None:
        # Arrow has no call to abort an upload, and would finish it when the stream is freed: so the stream must never be freed.
        # What was uploaded stays with the store as an unfinished upload, which is never visible.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.file))
