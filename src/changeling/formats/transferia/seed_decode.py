"""Records of Transferia's data model into changes: `Values` and `OldValues` in the order of the schema's columns."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw

from changeling.formats.member_order import is_usual
from changeling.formats.options import ReadOptions
from changeling.formats.transferia import schemas, table_text
from changeling.formats.transferia.envelope import INT64, SEED_KINDS, SEED_MEMBERS, SeedRecord
from changeling.formats.transferia.schemas import TablePlan
from changeling.model import json_text
from changeling.model.change import Change
from changeling.model.errors import Rejected, nearest
from changeling.model.json_text import quote
from changeling.model.operation import Image, Operation
from changeling.model.position import encode as position_of

_record = msgspec.json.Decoder(SeedRecord).decode
_ALWAYS = ("CommitTime", "Table", "Values", "TableSchema")


class SeedReader:
    """Reads records of the data model, with one set of options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._plans: dict[tuple[bytes | None, str | None], TablePlan] = {}

    def decode(self, value: bytes) -> Change:
        """The change of one record; raises `Rejected` or another ValueError with the reason."""
        found = _record(value)
        op = SEED_KINDS.get(found.kind)
        if op is None:
            raise Rejected(f"unknown Kind {found.kind!r}; {nearest(found.kind, SEED_KINDS)}")
        if found.old_values and op is not Operation.UPDATE:
            raise Rejected(f"OldValues on {found.kind}: they are filled only for UPDATE")
        change = Change(op=op, position=position_of(found.id))
        if found.commit_time and found.commit_time < INT64:
            change.commit_time = found.commit_time
        if op is Operation.DDL:
            return self._ddl(change, found, value)
        plan = self._plan(found)
        change.table, change.schema = plan.table, plan.schema
        meta = {"shape": b'"seed"'}
        values = found.values or []
        old = values if op is Operation.DELETE else found.old_values or []
        if op is not Operation.DELETE:
            row = _row(plan.columns, values, "Values")
            change.key = _key(row, plan)
            change.after, change.after_image = json_text.join(row.items()), Image.FULL
        if old or op is Operation.DELETE:
            short = len(old) == len(plan.key) != len(plan.columns)
            row = _row(plan.key if short else plan.columns, old, "Values" if op is Operation.DELETE else "OldValues")
            change.before_image, change.before = _old(row, plan)
            if change.key is None:
                change.key = _key(row, plan)
            if short:
                meta["keys"] = b"true"
        self._keep(found, value, plan, meta)
        change.meta = json_text.join(meta.items())
        return change

    def _plan(self, found: SeedRecord) -> TablePlan:
        raw = None if found.table_schema is UNSET else bytes(found.table_schema)
        plan = self._plans.get((raw, found.table))
        if plan is None:
            table = table_text.parse(found.table) if found.table else self._options.table
            if table is None:
                raise Rejected("the record names no table: say which with --table")
            plan = schemas.table_plan(raw, table, self._options)
            if not plan.columns:
                raise Rejected(
                    "no TableSchema: the columns of Values are unknown; give them with --columns or --schema"
                )
            schemas.remember(self._plans, (raw, found.table), plan)
        return plan

    def _ddl(self, change: Change, found: SeedRecord, value: bytes) -> Change:
        change.table = table_text.parse(found.table) if found.table else self._options.table
        meta = {"shape": b'"seed"'}
        if found.values and bytes(found.values[0])[:1] == b'"':
            meta["statement"] = bytes(found.values[0])
        meta["item"] = json_text.compact(value)
        change.meta = json_text.join(meta.items())
        return change

    def _keep(self, found: SeedRecord, value: bytes, plan: TablePlan, meta: dict[str, bytes]) -> None:
        if plan.kept is not None and plan.kept != b'"seed"':
            meta["TableSchema"] = plan.kept
        members = json_text.members(value)
        for name in ("CommitTime", "Table"):
            if members.get(name) == b"null" or (name == "CommitTime" and (found.commit_time or 0) >= INT64):
                meta[name] = members[name]
        if found.table is not None and (plan.table is None or table_text.text(plan.table) != found.table):
            meta["Table"] = quote(found.table)
        if "OldValues" in members and not found.old_values:
            meta["OldValues"] = members["OldValues"]
        if not is_usual(value, SEED_MEMBERS):
            meta["order"] = quote(list(members))
        lacks = [name for name in _ALWAYS if name not in members]
        if lacks:
            meta["lacks"] = quote(lacks)
        extra = [(name, part) for name, part in members.items() if name not in SEED_MEMBERS]
        if extra:
            meta["extra"] = json_text.join(extra)


def _row(names: Sequence[str], values: list[Raw], which: str) -> dict[str, bytes]:
    if len(values) != len(names):
        raise Rejected(f"{len(values)} {which}, but the schema has {len(names)} columns")
    return {name: bytes(value) for name, value in zip(names, values, strict=True)}


def _key(row: dict[str, bytes], plan: TablePlan) -> bytes | None:
    if not plan.key:
        return None
    missing = [name for name in plan.key if name not in row]
    if missing:
        raise Rejected(f"the schema lacks the key columns {', '.join(missing)}")
    return json_text.canonical_key((name, row[name]) for name in plan.key)


def _old(row: dict[str, bytes], plan: TablePlan) -> tuple[Image, bytes]:
    """Old values: if only the key's are filled, the image is the key."""
    if plan.key and all(value == b"null" for name, value in row.items() if name not in plan.key):
        return Image.KEY, json_text.join((name, row[name]) for name in plan.key)
    return Image.FULL, json_text.join(row.items())
