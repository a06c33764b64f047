"""The rules of a pipeline file for tables: what is kept of each, and what becomes of new versions of its schema."""

from collections.abc import Callable
from fnmatch import fnmatchcase

from changeling.log.schema_registry import Policy
from changeling.model.table import TableName
from changeling.pipelines.definition import TableRule
from changeling.pipelines.loading import Loaded


def mode_of(loaded: Loaded) -> Callable[[str, TableName], str]:
    """The mode of a table's replica by source and table, from the first rule that matches."""

    def mode(source: str, table: TableName) -> str:
        rule = _rule(loaded, source, table)
        return "merge" if rule is None else "typed" if rule.typed else rule.mode

    return mode


def policy_of(loaded: Loaded) -> Callable[[str, TableName], Policy]:
    """The policy for new versions of a table's schema by source and table, from the first rule that matches."""

    def policy(source: str, table: TableName) -> Policy:
        rule = _rule(loaded, source, table)
        return "evolve" if rule is None else rule.schema

    return policy


def _rule(loaded: Loaded, source: str, table: TableName) -> TableRule | None:
    return next((rule for rule in loaded.rules(source) if _is_for(rule, table)), None)


def _is_for(rule: TableRule, table: TableName) -> bool:
    """Whether a rule applies to a table: the parts of its name that are given match."""
    wanted = TableName.parse(rule.name)
    pairs = ((wanted.catalog, table.catalog), (wanted.schema, table.schema), (wanted.name, table.name))
    return all(part is None or own is None or fnmatchcase(own, part) for part, own in pairs)
