"""What a new version of a schema changes, and whether the rows of both fit into one table."""

from dataclasses import dataclass

from changeling.model.table import Column, TableSchema
from changeling.model.types import INTEGER_RANGES, STORED_DIGITS, Type, array, decimal

_DIGITS = {name: len(str(high)) for name, (_, high) in INTEGER_RANGES.items()}


@dataclass(frozen=True)
class Difference:
    """From one version to the next."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    widened: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """What does not fit into one table: one sentence each."""

    def __str__(self) -> str:
        parts = [
            ("adds", self.added),
            ("drops", self.dropped),
            ("renames", tuple(f"{old} to {new}" for old, new in self.renamed)),
            ("widens", self.widened),
            ("narrows", self.narrowed),
        ]
        changed = [f"{verb} {', '.join(names)}" for verb, names in parts if names]
        return "; ".join([*changed, *self.conflicts]) or "says the same of other names"


def difference(old: TableSchema, new: TableSchema) -> Difference:
    """What `new` changes. A column that is replaced by another of the same type in the same place is renamed."""
    before = {column.name: column for column in old.columns}
    after = {column.name: column for column in new.columns}
    renamed = _renamed(old, new)
    gone, come = {pair[0] for pair in renamed}, {pair[1] for pair in renamed}
    widened, narrowed, conflicts = [], [], []
    for name in (name for name in after if name in before):
        was, now = before[name].canonical, after[name].canonical
        if was != now:
            if widens(was, now):
                widened.append(f"{name} from {was} to {now}")
            elif widens(now, was):
                narrowed.append(f"{name} from {was} to {now}")
            elif (both := common(was, now)) is not None:
                widened.append(f"{name} from {was} to {both}, for {now}")
            else:
                conflicts.append(f"column {name} was {was} and is {now}")
    names_before = {now: was for was, now in renamed}
    if old.key != tuple(names_before.get(name, name) for name in new.key):
        conflicts.append(f"the key was ({', '.join(old.key)}) and is ({', '.join(new.key)})")
    return Difference(
        tuple(name for name in after if name not in before and name not in come),
        tuple(name for name in before if name not in after and name not in gone),
        renamed,
        tuple(widened),
        tuple(narrowed),
        tuple(conflicts),
    )


def _renamed(old: TableSchema, new: TableSchema) -> tuple[tuple[str, str], ...]:
    if len(old.columns) != len(new.columns):
        return ()
    names = {column.name for column in old.columns} & {column.name for column in new.columns}
    pairs = [
        (was, now)
        for was, now in zip(old.columns, new.columns, strict=True)
        if was.name not in names or now.name not in names
    ]
    if all(_alike(was, now) and was.name not in names and now.name not in names for was, now in pairs):
        return tuple((was.name, now.name) for was, now in pairs)
    return ()


def _alike(one: Column, other: Column) -> bool:
    return (one.type, one.original_type) == (other.type, other.original_type)


def widens(old: Type, new: Type) -> bool:
    """Whether every value of the old type is one of the new."""
    if old == new:
        return True
    if old.item is not None and new.item is not None:
        return widens(old.item, new.item)
    if old.kind in INTEGER_RANGES and new.kind in INTEGER_RANGES:
        (low, high), (lowest, highest) = INTEGER_RANGES[old.kind], INTEGER_RANGES[new.kind]
        return lowest <= low and high <= highest
    if new.kind == "decimal":
        if new.precision is None or new.scale is None:
            return old.kind == "decimal" or old.kind in INTEGER_RANGES
        if old.kind in INTEGER_RANGES:
            return new.precision - new.scale >= _DIGITS[old.kind]
        if old.kind == "decimal" and old.precision is not None and old.scale is not None:
            return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        return False
    return (old.kind, new.kind) == ("float32", "float64")


def common(one: Type, other: Type) -> Type | None:
    """The type that holds every value of both; None where there is none."""
    if widens(one, other):
        return other
    if widens(other, one):
        return one
    if one.item is not None and other.item is not None:
        item = common(one.item, other.item)
        return None if item is None else array(item)
    if one.kind in INTEGER_RANGES and other.kind in INTEGER_RANGES:
        held = (Type(name) for name in ("int16", "int32", "int64"))
        return next((kind for kind in held if widens(one, kind) and widens(other, kind)), decimal(20, 0))
    places = [_places(kind) for kind in (one, other)]
    if None in places:
        return None
    whole, behind = (max(sizes) for sizes in zip(*(found for found in places if found is not None), strict=True))
    return decimal(whole + behind, behind) if whole + behind <= STORED_DIGITS else Type("decimal")


def _places(kind: Type) -> tuple[int, int] | None:
    """How many digits a number has before and after the point; None where it is not an exact number, or has any size."""
    if kind.kind in INTEGER_RANGES:
        return _DIGITS[kind.kind], 0
    if kind.precision is None or kind.scale is None:
        return None
    return kind.precision - kind.scale, kind.scale


def shown(schema: TableSchema) -> str:
    """A schema on one line, for messages."""
    columns = ", ".join(
        f"{column.name} {column.type}{' key' if column.name in schema.key else ''}" for column in schema.columns
    )
    return f"({columns})"
