"""`ydb-json`: YDB's changefeeds with FORMAT = JSON, in every mode (seed 004)."""

from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.ydb_json.envelope import FLAGS, Mode
from changeling.formats.ydb_json.read import YdbJsonRead, reader
from changeling.formats.ydb_json.types import TYPES
from changeling.formats.ydb_json.write import YdbJsonWrite, writer

FORMAT = Format(
    name="ydb-json",
    summary="YDB's changefeeds, FORMAT = JSON: a key array, a flag, and what the MODE shows of the row",
    read_options=YdbJsonRead,
    write_options=YdbJsonWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        "upsert",
        "delete",
        "barrier",
        "ddl",
        "before",
        "after",
        "partial",
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
    names_table=False,
    feed_modes=tuple(Mode),
    signs=(*(("key", flag) for flag in FLAGS), ("resolved",), ("tableChanges", "ts")),
)
