"""Control events (changes of other dialects that touch no row) as Debezium messages: transaction marks, statements, messages, tombstones."""

import base64

from changeling.envelope.one import ONE
from changeling.envelope.writing import RecordCells
from changeling.formats.debezium_json.message import headers_of, put_together
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.source import clock, kept_topic, server_name, source_of, transaction_text
from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.json_text import quote
from changeling.model.operation import Operation

Pairs = list[tuple[str, bytes | str]]

_STATUS = {Operation.BEGIN: b'"BEGIN"', Operation.COMMIT: b'"END"'}
_STATEMENTS = ("statement", "ddl", "query")


class ControlEventWriter:
    """Writes control changes with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options = options

    def records(self, out: Outgoing) -> list[RecordCells]:
        """The messages of one change; raises `CannotCarry` if Debezium has no such record."""
        change = out.change
        meta = json_text.members(change.meta or b"{}")
        if change.op in _STATUS:
            return self._boundary(out)
        if change.op is Operation.DDL:
            return self._statement(out, meta)
        if change.op is not Operation.MESSAGE:
            out.lose(change.op.value, "Debezium has no record for it")
            return []
        if "tombstone" in meta:
            return self._tombstone(out, meta)
        return self._message(out, meta)

    def _tombstone(self, out: Outgoing, meta: dict[str, bytes]) -> list[RecordCells]:
        own = meta if out.native else {}
        _, key = put_together(ONE, b"null", own, out.change.key)
        return [RecordCells(None, key, kept_topic(out.change, own, self._options), headers_of(own))]

    def _boundary(self, out: Outgoing) -> list[RecordCells]:
        change = out.change
        if change.transaction is None:
            out.lose(change.op.value, "a mark names its transaction, and this one names none")
            return []
        number = quote(change.transaction.id)
        millis, finer = clock(ONE, change.commit_time)
        pairs: Pairs = [
            ("status", _STATUS[change.op]),
            ("id", number),
            ("ts_ms", millis),
            ("event_count", quote(change.transaction.total)),
            ("data_collections", b"null" + finer),
        ]
        if change.position is not None and not out.arrived:
            pairs.append(("position", quote(change.position)))
        return self._wrapped(pairs, [("id", number)], "transaction")

    def _statement(self, out: Outgoing, meta: dict[str, bytes]) -> list[RecordCells]:
        change, table = out.change, out.change.table
        statement = next((meta[name] for name in _STATEMENTS if meta.get(name, b"")[:1] == b'"'), None)
        if statement is None:
            out.lose("ddl", "a schema change contains the statement, and this change does not have it")
            return []
        database = quote((table and table.catalog) or "")
        pairs: Pairs = [
            ("source", source_of(ONE, out, change, self._options)),
            ("ts_ms", clock(ONE, change.commit_time)[0]),
            ("databaseName", database),
            ("schemaName", quote(table and table.schema)),
            ("ddl", statement),
            ("tableChanges", b"[]"),
        ]
        return self._wrapped(pairs, [("databaseName", database)], None)

    def _message(self, out: Outgoing, meta: dict[str, bytes]) -> list[RecordCells]:
        change = out.change
        prefix = meta.get("prefix", b"")
        prefix = prefix if prefix[:1] == b'"' else b'"changeling"'
        content = meta.get("content")
        plain = json_text.join(meta.items()) if content is None else content
        text = json_text.string(plain).encode() if plain[:1] == b'"' else plain
        pairs: Pairs = [
            ("source", source_of(ONE, out, change, self._options)),
            ("op", b'"m"'),
            ("ts_ms", clock(ONE, change.commit_time)[0]),
            ("message", json_text.join([("prefix", prefix), ("content", quote(base64.b64encode(text).decode()))])),
        ]
        if change.transaction is not None:
            pairs.insert(1, ("transaction", transaction_text(ONE, change.transaction)))
        return self._wrapped(pairs, [("prefix", prefix)], "message")

    def _wrapped(self, value: Pairs, key: Pairs, topic: str | None) -> list[RecordCells]:
        """The message; its schema part, if requested, is null: the payload has no columns of a table."""
        parts = [json_text.join(value), json_text.join(key)]
        if self._options.schemas:
            parts = [json_text.join([("schema", b"null"), ("payload", part)]) for part in parts]
        name = server_name(self._options)
        return [RecordCells(parts[0], parts[1], name if topic is None else f"{name}.{topic}")]
