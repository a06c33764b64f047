"""`ydb-debezium`: YDB's changefeeds with FORMAT = DEBEZIUM_JSON, in every mode (seed 004)."""

from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.ydb_debezium.read import YdbDebeziumRead, reader
from changeling.formats.ydb_debezium.write import writer
from changeling.formats.ydb_json.envelope import Mode
from changeling.formats.ydb_json.topic import ChangefeedWrite
from changeling.formats.ydb_json.types import TYPES

FORMAT = Format(
    name="ydb-debezium",
    summary="YDB's changefeeds, FORMAT = DEBEZIUM_JSON: images as the MODE shows them, the key in the message key",
    read_options=YdbDebeziumRead,
    write_options=ChangefeedWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        "read",
        "insert",
        "delete",
        "before",
        "after",
        "keys-only",
        "composite-key",
        "position",
        "commit_time",
        "transaction",
        # The record names no table at all: its full name comes from the topic's path or from the reader's options.
        "catalog",
        "schema",
        "null",
        "null-text",
        "types",
        "binary",
    ),
    types=TYPES,
    position="step, txId",
    counts_transactions=True,
    names_table=False,
    feed_modes=tuple(Mode),
    signs=(("op", "source.connector=ydb"), ("payload.op", "payload.source.connector=ydb")),
)
