"""The part of a byte stream that is in memory: it moves forward, and grows only while a record needs it."""

import re

from changeling.files.raw_records import HEAD, RawRecord, Readable, oversized

BOM = b"\xef\xbb\xbf"


class Window:
    """`data[at:]` was read and not yet taken. `fill` moves it to the front: keep offsets relative to `at`."""

    def __init__(self, stream: Readable, chunk_size: int, limit: int, blanks: bytes) -> None:
        self._stream = stream
        self._chunk_size = chunk_size
        self.limit = limit
        """The most bytes that one record may have."""
        self._blanks = blanks
        self.data = b""
        self.at = 0
        self.base = 0
        """The offset of `data[0]` in the stream."""
        while len(self.data) < len(BOM) and self.fill():
            pass
        if self.data.startswith(BOM):
            self.at = len(BOM)

    def fill(self) -> bool:
        """Reads more; False at the end of the stream."""
        rest = self.data[self.at :]
        # Reads more at once for long records, so that few reads assemble them.
        more = self._stream.read(max(self._chunk_size, min(len(rest), 4 * self._chunk_size)))
        if not more:
            return False
        self.base += self.at
        self.data, self.at = rest + more if rest else more, 0
        return True

    def find(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """The first match after `at`, reading as far as needed; None if none is within the limit or in the stream.

        A pattern starts with a line break, and may look ahead over a few bytes.
        """
        skip = 0
        while True:
            match = pattern.search(self.data, self.at + skip)
            if match is not None:
                return match
            if self.left > self.limit:
                return None
            last = self.data.rfind(b"\n", self.at)
            skip = last - self.at if last >= 0 else self.left
            if not self.fill():
                return None

    @property
    def left(self) -> int:
        """How many bytes can be taken."""
        return len(self.data) - self.at

    def pass_to(self, end: int) -> None:
        """Everything up to an offset in `data` is not part of a record, or was taken already."""
        self.at = end

    def take(self, end: int) -> RawRecord:
        """Takes everything up to an offset in `data` as one record; its trailing `blanks` are left out."""
        start, self.at = self.at, end
        if end - start > self.limit:
            return oversized(self.data[start : start + HEAD], end - start)
        return self.data[start:end].rstrip(self._blanks)

    def take_until(self, pattern: re.Pattern[bytes]) -> RawRecord:
        """Takes everything up to the start of the first match (the end of its group 1, if that matched) or the end of the stream."""
        match = self.find(pattern)
        if match is not None:
            return self.take(end_of(match))
        if self.left <= self.limit:
            return self.take(len(self.data))
        head, length = self.data[self.at : self.at + HEAD], 0
        while True:
            # Only the last line break can still begin a match, and only if it is near.
            cut = self.data.rfind(b"\n", self.at)
            cut = cut if cut >= self.at and len(self.data) - cut < HEAD else len(self.data)
            length += cut - self.at
            self.at = cut
            if not self.fill():
                length += self.left
                self.at = len(self.data)
                return oversized(head, length)
            match = pattern.search(self.data)
            if match is not None:
                self.at = end_of(match)
                return oversized(head, length + self.at)


def end_of(match: re.Match[bytes]) -> int:
    """Where the record before a match ends."""
    return match.end(1) if match.re.groups and match.group(1) is not None else match.start()
