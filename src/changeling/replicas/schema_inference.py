"""The known columns of tables, and what folds learn about them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from changeling.log.schema_registry import Policy, Registry, Version
from changeling.log.schema_sampling import kinds_of
from changeling.log.task_result import TableSample
from changeling.model import json_text
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.replicas.fold_table import FoldTable
from changeling.replicas.logged_changes import Changes
from changeling.replicas.schema_reversion import PositionRange, may_revert, reversions
from changeling.replicas.shape import Columns, Shape, columns_of

if TYPE_CHECKING:
    from changeling.replicas.pending_changes import PendingTable

Policies = Callable[[str, TableName], Policy]
Register = Callable[[Callable[[Registry], list[Version]]], list[Version]]
"""Adds versions to the registry and stores them, as `Log.register` does."""


class SchemaInference:
    """Columns by the registry; new ones are registered and stored."""

    def __init__(self, registry: Registry, policy: Policies, register: Register | None = None) -> None:
        """Without `register`, new columns are known to this registry alone."""
        self._registry, self._policy = registry, policy
        self._register: Register = (lambda change: change(registry)) if register is None else register

    def columns(self, source: str, table: TableName, key: str | None, known_key: Sequence[str] = ()) -> Columns:
        """The columns of a table; those of `key`, a key of one of its rows, are among them.

        Changes without any key, as a truncate is, do not tell that a table has none: then `known_key` are the columns of its key.
        """
        registry, policy = self._registry, self._policy(source, table)
        declared = registry.of(source, table)
        names = list(known_key) if key is None else list(json_text.members(key))
        columns = columns_of(declared, registry.undeclared(source, table), policy, names)
        known = {column.source_name for column in columns.shape().columns}
        if key is None or set(names) <= known:
            return columns
        sample = {name: sorted(kinds) for name, kinds in kinds_of([key]).items() if name not in known}
        self._register(lambda registry: registry.register_undeclared(source, TableSample(table, sample, tuple(names))))
        return columns_of(declared, registry.undeclared(source, table), policy, names)

    def look_for_reversions(self, changes: Changes, span: PositionRange, new: "PendingTable | None" = None) -> None:
        """Registers the versions that hold again; `new`, if given, may show that there is nothing to look for."""
        if new is None or may_revert(self._registry, new):
            found = reversions(changes, self._registry, span)
            self._register(lambda registry: [registry.reinstate(version, position) for version, position in found])

    def widened(
        self, folded: FoldTable, kinds: dict[str, list[str]], key: str | None, version: int | None
    ) -> FoldTable:
        """The table of a fold with columns that hold values of these kinds as well; `key` and `version` are its own."""
        source, table = folded.source, folded.table
        if self._registry.of(source, table) and self._policy(source, table) == "fail":
            raise ChangelingError(
                f"source {source}: {table} has columns that its schema does not declare ({', '.join(sorted(kinds))}), and its "
                "policy is to fail. Set `schema: evolve` for this table to add them, or `schema: ignore` to skip them."
            )
        sample = TableSample(table, kinds, tuple(column.source_name for column in folded.shape.key_columns))
        self._register(lambda registry: registry.register_undeclared(source, sample))
        columns = self.columns(source, table, key, sample.key)
        if (columns.extra, columns.doubles) == (folded.columns.extra, folded.columns.doubles):
            raise ChangelingError(
                f"source {source}: no column of {table} can be created for the values of {', '.join(map(repr, sorted(kinds)))}: "
                "declare the table's columns in the pipeline file, with `schema: ignore`"
            )
        shape = columns.shape(version)
        return replace(folded, columns=columns, shape=Shape(shape.columns) if folded.is_change_list else shape)
