"""What a record shows of its row: the event, the keys, and the images that a mode requires."""

from collections.abc import Sequence
from typing import NamedTuple

from changeling.envelope.cells import Cell, Cells, Members
from changeling.envelope.rows import Kind, Row
from changeling.formats.ydb_dynamodb import attributes, limits
from changeling.formats.ydb_dynamodb.images import print_columns
from changeling.formats.ydb_json.envelope import Mode
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation

_NEW_ROWS = (Operation.INSERT, Operation.READ)
_MOST_KEY_COLUMNS = 2


class View(NamedTuple):
    """One record's part in `eventName`, `StreamViewType`, `Keys` and the images."""

    event: Cell
    view: Cell
    keys: Cell
    new_image: Cell
    old_image: Cell


def same_key_value(one: bytes, other: bytes) -> bool:
    """Whether two values of a key column are one: numbers may differ in their spelling."""
    return one == other or (b"null" not in (one, other) and _spelled(one) == _spelled(other))


def _spelled(raw: bytes) -> bytes:
    value = attributes.read(raw)
    return json_text.canonical_number(value.N.encode()) if isinstance(value.N, str) else json_text.canonical(raw)


def view_of(out: Cell, mode: Mode | None, omit_nulls: bool, cells: Cells, row: Row) -> Sequence[Cell]:
    """What records of these rows show: all that they can, or what `mode` requires; a mode that requires more is a loss."""
    kind, old = row.kind, row.before if row.kind.before_image is Image.FULL else None
    new = _after(kind, old, row.after)
    if mode is None:
        view = _widest(kind.op, new is not None, old is not None)
    else:
        view = Mode.KEYS_ONLY if mode is Mode.UPDATES else mode
        lacks_new = view.has_new_image and new is None and kind.op is not Operation.DELETE
        lacks_old = view.has_old_image and old is None and kind.op not in _NEW_ROWS
        if lacks_new or lacks_old:
            cells.alone()
        if lacks_new:
            out.lose("after", f"the mode {mode} shows the full row, and this change does not have it")
        if lacks_old:
            out.lose("before", f"the mode {mode} shows the row before the change, and this change does not have it")
    if cells.many and row.before is not None and kind.op is not Operation.DELETE:
        for name, value in (row.key or {}).items():
            # A row that moves to another key is two records.
            cells.only(cells.equal(row.before.get(name, value), value))
    keys, changed = _keys(cells, out, row.key or {})
    shown = [
        None
        if image is None or not wanted
        else _image(cells, out, {**image, **_held(cells, image, keys, changed)}, omit_nulls)
        for image, wanted in ((new, view.has_new_image), (old, view.has_old_image))
    ]
    canonical = {name: _canonical(cells, value) for name, value in keys.items()}
    return quote(_event(kind.op, view, old is not None)), quote(view), cells.shell(canonical), *shown


def _canonical(cells: Cells, value: Cell) -> Cell:
    return value if cells.only(cells.matches(value, limits.PLAIN_KEY_VALUE)) else attributes.canonical(value)


def _after(kind: Kind, before: Members | None, after: Members | None) -> Members | None:
    """The full row after the change. A part of it would turn every other column into NULL: it is not written."""
    if kind.op is Operation.DELETE:
        return None
    if kind.after_image is Image.PARTIAL and before is not None:
        return {**before, **(after or {})}
    return after if kind.after_image is Image.FULL else None


def _widest(op: Operation, has_new: bool, has_old: bool) -> Mode:
    """The mode that shows just what the change has; only one mode distinguishes an insert from an update."""
    if has_new and (has_old or op is Operation.INSERT):
        return Mode.NEW_AND_OLD_IMAGES
    return Mode.NEW_IMAGE if has_new else Mode.OLD_IMAGE if has_old else Mode.KEYS_ONLY


def _event(op: Operation, view: Mode, has_old: bool) -> str:
    if op is Operation.DELETE:
        return "REMOVE"
    return "INSERT" if op in _NEW_ROWS and view is Mode.NEW_AND_OLD_IMAGES and not has_old else "MODIFY"


def _keys(cells: Cells, out: Cell, key: Members) -> tuple[Members, set[str]]:
    """The key columns, and those among them that had to become text."""
    if out.native:
        return key, set()
    if len(key) > _MOST_KEY_COLUMNS:
        cells.alone()
        out.lose("composite-key", f"a document has a key of one or two columns, this one has {len(key)}")
    keys = {name: limits.key_column(cells, out, name, value) for name, value in key.items()}
    return keys, {name for name, value in keys.items() if value is not key[name] and value != key[name]}


def _held(cells: Cells, image: Members, keys: Members, changed: set[str]) -> Members:
    """The key columns that an image lacks, or has in a form that a key cannot have, such as MongoDB's `{"$numberLong":"5"}`."""

    def fits(name: str) -> bool:
        return name in image and name not in changed and cells.only(cells.matches(image[name], limits.KEY_KIND))

    return {name: value for name, value in keys.items() if not fits(name)}


def _image(cells: Cells, out: Cell, row: Members, omit_nulls: bool) -> Cell:
    return print_columns(cells, row, omit_nulls) if out.native else limits.image(cells, out, row, omit_nulls)
