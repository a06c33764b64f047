"""What a record shows of its row: the event, the keys, and the images that a mode requires."""

from dataclasses import dataclass

from changeling.formats.format import Outgoing
from changeling.formats.ydb_dynamodb import attributes, limits
from changeling.formats.ydb_dynamodb.images import Columns, print_columns
from changeling.formats.ydb_json.envelope import Mode
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.operation import Image, Operation

_NEW_ROWS = (Operation.INSERT, Operation.READ)
_MOST_KEY_COLUMNS = 2


@dataclass
class View:
    """One record's part in `eventName`, `StreamViewType`, `Keys` and the images."""

    event: str
    view: Mode
    keys: bytes
    new_image: bytes | None = None
    old_image: bytes | None = None


def same_key_value(one: bytes, other: bytes) -> bool:
    """Whether two values of a key column are one: numbers may differ in their spelling."""
    return one == other or (b"null" not in (one, other) and _spelled(one) == _spelled(other))


def _spelled(raw: bytes) -> bytes:
    value = attributes.read(raw)
    return json_text.canonical_number(value.N.encode()) if isinstance(value.N, str) else json_text.canonical(raw)


def view_of(out: Outgoing, mode: Mode | None, omit_nulls: bool) -> View:
    """What the change's record shows: all that it can, or what `mode` requires; a mode that requires more is a loss."""
    change = out.change
    new, old = _after(change), _columns(change.before, change.before_image)
    if mode is None:
        view = _widest(change.op, new is not None, old is not None)
    else:
        view = Mode.KEYS_ONLY if mode is Mode.UPDATES else mode
        if view.has_new_image and new is None and change.op is not Operation.DELETE:
            out.lose("after", f"the mode {mode} shows the full row, and this change does not have it")
        if view.has_old_image and old is None and change.op not in _NEW_ROWS:
            out.lose("before", f"the mode {mode} shows the row before the change, and this change does not have it")
    keys, changed = _keys(out)
    made = View(_event(change.op, view, old is not None), view, _canonical(keys))
    if new is not None and view.has_new_image:
        made.new_image = _image(out, new, keys, changed, omit_nulls)
    if old is not None and view.has_old_image:
        made.old_image = _image(out, old, keys, changed, omit_nulls)
    return made


def _columns(text: str | bytes | None, image: Image) -> Columns | None:
    return json_text.members(text) if text is not None and image is Image.FULL else None


def _after(change: Change) -> Columns | None:
    """The full row after the change. A part of it would turn every other column into NULL: it is not written."""
    if change.op is Operation.DELETE:
        return None
    before = _columns(change.before, change.before_image)
    if change.after_image is Image.PARTIAL and before is not None:
        return {**before, **json_text.members(change.after or b"{}")}
    return _columns(change.after, change.after_image)


def _widest(op: Operation, has_new: bool, has_old: bool) -> Mode:
    """The mode that shows just what the change has; only one mode distinguishes an insert from an update."""
    if has_new and (has_old or op is Operation.INSERT):
        return Mode.NEW_AND_OLD_IMAGES
    return Mode.NEW_IMAGE if has_new else Mode.OLD_IMAGE if has_old else Mode.KEYS_ONLY


def _event(op: Operation, view: Mode, has_old: bool) -> str:
    if op is Operation.DELETE:
        return "REMOVE"
    return "INSERT" if op in _NEW_ROWS and view is Mode.NEW_AND_OLD_IMAGES and not has_old else "MODIFY"


def _keys(out: Outgoing) -> tuple[Columns, set[str]]:
    """The key columns, and those among them that had to become text."""
    key = json_text.members(out.change.key or b"{}")
    if out.native:
        return key, set()
    if len(key) > _MOST_KEY_COLUMNS:
        out.lose("composite-key", f"a document has a key of one or two columns, this one has {len(key)}")
    keys = {name: limits.key_column(out, name, value) for name, value in key.items()}
    return keys, {name for name, value in keys.items() if value != key[name]}


def _canonical(keys: Columns) -> bytes:
    return json_text.join((name, attributes.canonical(value)) for name, value in keys.items())


def _image(out: Outgoing, columns: Columns, keys: Columns, changed: set[str], omit_nulls: bool) -> bytes:
    held = {name: value for name, value in keys.items() if name not in columns or name in changed}
    row = {**columns, **held}
    return print_columns(row, omit_nulls) if out.native else limits.image(out, row, omit_nulls)
