"""Changes of other dialects that touch no row: transaction marks, statements, messages, tombstones."""

import base64

from changeling.formats.debezium_json.message import headers_of, put_together
from changeling.formats.debezium_json.options import DebeziumWrite
from changeling.formats.debezium_json.source import Pairs, clock, kept_topic, milliseconds, server_name, source_of
from changeling.formats.format import Outgoing
from changeling.model import json_text
from changeling.model.change import Record
from changeling.model.json_text import quote
from changeling.model.operation import Operation

_STATUS = {Operation.BEGIN: b'"BEGIN"', Operation.COMMIT: b'"END"'}
_STATEMENTS = ("statement", "ddl", "query")


class MarkWriter:
    """Writes control changes with one set of options."""

    def __init__(self, options: DebeziumWrite) -> None:
        self._options = options

    def records(self, out: Outgoing, meta: dict[str, bytes]) -> list[Record]:
        """The messages of one change; raises `CannotCarry` if Debezium has no such record."""
        change = out.change
        meta = meta or json_text.members(change.meta or b"{}")
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

    def _tombstone(self, out: Outgoing, meta: dict[str, bytes]) -> list[Record]:
        own = meta if out.native else {}
        key = out.change.key.encode() if isinstance(out.change.key, str) else out.change.key
        _, key = put_together(b"null", own, key)
        return [Record(None, key, headers_of(own), kept_topic(out.change, own, self._options))]

    def _boundary(self, out: Outgoing) -> list[Record]:
        change = out.change
        if change.transaction is None:
            out.lose(change.op.value, "a mark names its transaction, and this one names none")
            return []
        number = quote(change.transaction.id)
        pairs: Pairs = [
            ("status", _STATUS[change.op]),
            ("id", number),
            ("ts_ms", milliseconds(change.commit_time)),
            ("event_count", b"null"),
            ("data_collections", b"null"),
            *clock(change.commit_time),
        ]
        if change.position is not None and not out.arrived:
            pairs.append(("position", quote(change.position)))
        return self._wrapped(pairs, [("id", number)], "transaction")

    def _statement(self, out: Outgoing, meta: dict[str, bytes]) -> list[Record]:
        change, table = out.change, out.change.table
        statement = next((meta[name] for name in _STATEMENTS if meta.get(name, b"")[:1] == b'"'), None)
        if statement is None:
            out.lose("ddl", "a schema change contains the statement, and this change does not have it")
            return []
        database = quote((table and table.catalog) or "")
        pairs: Pairs = [
            ("source", source_of(out, change, self._options)),
            ("ts_ms", milliseconds(change.commit_time)),
            ("databaseName", database),
            ("schemaName", quote(table and table.schema)),
            ("ddl", statement),
            ("tableChanges", b"[]"),
        ]
        return self._wrapped(pairs, [("databaseName", database)], None)

    def _message(self, out: Outgoing, meta: dict[str, bytes]) -> list[Record]:
        change = out.change
        prefix = meta.get("prefix", b"")
        prefix = prefix if prefix[:1] == b'"' else b'"changeling"'
        content = meta.get("content")
        plain = json_text.join(meta.items()) if content is None else content
        text = json_text.string(plain).encode() if plain[:1] == b'"' else plain
        pairs: Pairs = [
            ("source", source_of(out, change, self._options)),
            ("op", b'"m"'),
            ("ts_ms", milliseconds(change.commit_time)),
            ("message", json_text.join([("prefix", prefix), ("content", quote(base64.b64encode(text).decode()))])),
        ]
        if change.transaction is not None:
            found = change.transaction
            transaction = {"id": found.id, "total_order": found.total, "data_collection_order": found.order}
            pairs.insert(1, ("transaction", quote(transaction)))
        return self._wrapped(pairs, [("prefix", prefix)], "message")

    def _wrapped(self, value: Pairs, key: Pairs, topic: str | None) -> list[Record]:
        """The message; its schema part, if requested, is null: the payload has no columns of a table."""
        parts = [json_text.join(value), json_text.join(key)]
        if self._options.schemas:
            parts = [json_text.join([("schema", b"null"), ("payload", part)]) for part in parts]
        name = server_name(self._options)
        return [Record(parts[0], parts[1], topic=name if topic is None else f"{name}.{topic}")]
