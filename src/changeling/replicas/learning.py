"""What is known of the columns of tables, and what folds find out about them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from changeling.log.outcome import Sampled
from changeling.log.sampling import kinds_of
from changeling.log.schemas import Policy, Registry, Version
from changeling.model import json_text
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName
from changeling.replicas.shape import Columns, columns_of
from changeling.replicas.steps import FoldedTable

Policies = Callable[[str, TableName], Policy]


class Learner:
    """Columns by the registry; new ones go into it, and to whoever writes it down."""

    def __init__(self, registry: Registry, policy: Policies, register: Callable[[list[Version]], None]) -> None:
        self._registry, self._policy, self._register = registry, policy, register

    def columns(
        self, source: str, table: TableName, key: str | None, starts: Mapping[int, str] | None = None
    ) -> Columns:
        """The columns of a table; those of `key`, a key of one of its rows, are among them.

        `starts` are the first positions of versions, where they are known better than when a version was met first.
        """
        registry, policy = self._registry, self._policy(source, table)
        told = registry.of(source, table) if starts is None else _begun(registry.of(source, table), starts)
        names = [] if key is None else list(json_text.members(key))
        columns = columns_of(told, registry.untold(source, table), policy, names)
        known = {column.name for column in columns.shape().columns}
        if key is None or set(names) <= known:
            return columns
        sample = {name: sorted(kinds) for name, kinds in kinds_of([key]).items() if name not in known}
        self._register(registry.meet(source, Sampled(table, sample, tuple(names))))
        return columns_of(told, registry.untold(source, table), policy, names)

    def versions(self, source: str, table: TableName) -> list[Version]:
        """What was told of a table."""
        return self._registry.of(source, table)

    def widened(
        self,
        folded: FoldedTable,
        kinds: dict[str, list[str]],
        key: str | None,
        limit: str | None,
        starts: Mapping[int, str] | None = None,
    ) -> FoldedTable:
        """The table of a fold with columns that hold values of these kinds as well; `key` and `limit` are its own."""
        source, table = folded.source, folded.table
        if self._registry.of(source, table) and self._policy(source, table) == "fail":
            raise ChangelingError(
                f"source {source}: {table} has columns that its schema does not tell of ({', '.join(sorted(kinds))}), and its "
                "policy is to fail. Set `schema: evolve` for this table to add them, or `schema: ignore` to pass them over."
            )
        sample = Sampled(table, kinds, tuple(column.name for column in folded.shape.key_columns))
        self._register(self._registry.meet(source, sample))
        columns = self.columns(source, table, key, starts)
        return replace(folded, columns=columns, shape=columns.shape(limit))


def _begun(versions: list[Version], starts: Mapping[int, str]) -> list[Version]:
    """The versions in the order of their first changes."""
    moved = [
        msgspec.structs.replace(version, position=min(version.position, starts[version.id]))
        if version.position is not None and version.id in starts
        else version
        for version in versions
    ]
    return sorted(moved, key=lambda version: (version.position or "", version.id))
