"""A table as it is published, under the rules for its columns: how its rows are read."""

import hashlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from changeling.model.table import TableName
from changeling.postgres.column_rules import ColumnRules, Treatment
from changeling.postgres.images import Member
from changeling.postgres.relation import PgColumn, Relation
from changeling.postgres.tuples import UNCHANGED
from changeling.postgres.types import canonical_type, schema_of
from changeling.postgres.values import QUOTED, Pieces, Reading, reading

_MASK = pa.array([b"***"], pa.binary())


@dataclass(frozen=True)
class PublishedColumn:
    """A column that row images contain."""

    number: int
    """Its index among the relation's columns."""
    name: str
    read: Reading
    has_several_spellings: bool
    """Equal values may have several spellings, so a key has to use their canonical form."""

    def member(self, texts: pa.BinaryArray, places: np.ndarray | None, kinds: np.ndarray | None = None) -> Member:
        """The column of many rows: the texts of those that have one, the index of each row's text or -1, and kinds."""
        absent = None if kinds is None or places is None else kinds == UNCHANGED
        return Member(self.name, self.read(texts), places, None if absent is None or not absent.any() else absent)


class PublishedTable:
    """A relation under column rules. Raises `UsageError` where they hide its key."""

    def __init__(self, relation: Relation, rules: ColumnRules | None = None) -> None:
        rules = rules or ColumnRules()
        rules.check(relation)
        schema = schema_of(relation, rules)
        self.relation = relation
        self.columns = tuple(_columns(relation, rules))
        self.key = tuple(column for column in self.columns if column.name in schema.key)
        """In the column order of the table."""
        self.schema_text = schema.to_json()
        """The value of the `schema` column of its changes."""
        self.shape: Hashable = (
            tuple((column.name, column.type) for column in relation.columns),
            frozenset(column.name for column in self.key),
            rules,
        )
        """Rows of tables of the same shape are read together: those of many tenants, say."""

    @property
    def name(self) -> TableName:
        """Its name."""
        return self.relation.table

    @cached_property
    def key_names(self) -> frozenset[str]:
        """The names of the key columns; empty without a key."""
        return frozenset(column.name for column in self.key)

    def spelled(self, members: list[Member]) -> list[Member]:
        """The members that form the key, with equal values written alike."""
        several = {column.name for column in self.key if column.has_several_spellings}
        key = [member for member in members if member.name in self.key_names]
        return [member.canonical() if member.name in several else member for member in key]


def _columns(relation: Relation, rules: ColumnRules) -> Iterator[PublishedColumn]:
    for number, column in enumerate(relation.columns):
        treatment = rules.treatment(column.name)
        if treatment is not None:
            kind = canonical_type(column.type).kind
            several = treatment == "plain" and kind in ("float32", "float64", "json", "interval", "array")
            yield PublishedColumn(number, column.name, _reading(column, treatment, rules.salt), several)


def _reading(column: PgColumn, treatment: Treatment, salt: str) -> Reading:
    if treatment == "plain":
        return reading(column.type)
    if treatment == "masked":
        return lambda texts: Pieces(_MASK, QUOTED, None, np.zeros(len(texts), np.int64))
    salted = hashlib.sha256(salt.encode())

    def digest(text: bytes) -> bytes:
        whole = salted.copy()
        whole.update(text)
        return whole.hexdigest().encode()

    return lambda texts: Pieces(pa.array([digest(text) for text in texts.to_pylist()], pa.binary()), QUOTED)
