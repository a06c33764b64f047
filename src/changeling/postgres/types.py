"""Maps PostgreSQL types to canonical types, and a relation to a schema. A type without a canonical one becomes text."""

from changeling.model import types
from changeling.model.table import Column, TableSchema
from changeling.model.types import Type
from changeling.postgres.column_rules import ColumnRules
from changeling.postgres.relation import PgType, Relation

_BUILT_IN = {
    "bool": "bool",
    "int2": "int16",
    "int4": "int32",
    "int8": "int64",
    "oid": "uint32",
    "float4": "float32",
    "float8": "float64",
    "bytea": "bytes",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "interval": "interval",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "json",
}
"""Types with a canonical counterpart. `timetz` is text: its offset may have seconds, which a canonical time cannot."""

# Arrays in the catalog, but printed without braces.
_PRINTED_FLAT = {"int2vector", "oidvector"}
_STRING = Type("string")


def base(kind: PgType) -> PgType:
    """The base type of nested domains."""
    while kind.kind == "domain" and kind.element is not None:
        kind = kind.element
    return kind


def item_of(kind: PgType) -> PgType | None:
    """The type of an array's items, without its domains; None where values are not printed as arrays."""
    kind = base(kind)
    if kind.kind != "array" or kind.element is None or kind.name in _PRINTED_FLAT:
        return None
    return base(kind.element)


def is_hstore(kind: PgType) -> bool:
    """Whether it is the type of the extension hstore, which may live in any schema."""
    return kind.kind == "base" and kind.name == "hstore"


def canonical_type(kind: PgType, typmod: int = -1) -> Type:
    """The canonical type of a column of this type; of an array, `typmod` is that of its items."""
    kind = base(kind)
    if (item := item_of(kind)) is not None:
        return types.array(canonical_type(item, typmod))
    if is_hstore(kind):
        return Type("json")
    if kind.kind != "base" or kind.schema != "pg_catalog":
        return _STRING
    if kind.name == "numeric":
        return _numeric(typmod)
    return Type(_BUILT_IN.get(kind.name, "string"))


def _numeric(typmod: int) -> Type:
    """The smallest decimal that holds every value: a scale may be negative, or more than the precision."""
    if typmod < 4:
        return Type("decimal")
    precision = (typmod - 4) >> 16 & 0xFFFF
    # Eleven bits with a sign.
    scale = ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400
    return types.decimal(max(precision - scale, 0) + max(scale, 0), max(scale, 0))


def schema_of(relation: Relation, rules: ColumnRules | None = None) -> TableSchema:
    """Columns and key of a relation, without its name. A key with missing columns is dropped.

    With rules it has only the captured columns; masked and hashed ones are text.
    """
    columns = []
    for column in relation.columns:
        treatment = "plain" if rules is None else rules.treatment(column.name)
        if treatment is not None:
            kind = canonical_type(column.type, column.typmod) if treatment == "plain" else _STRING
            columns.append(Column(column.name, str(kind), column.spelled or None, column.nullable))
    key = relation.key if {column.name for column in columns}.issuperset(relation.key) else ()
    return TableSchema(tuple(columns), key)
