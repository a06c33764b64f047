"""`ydb-json`: YDB's changefeeds with FORMAT = JSON, in every mode (seed 004)."""

from changeling.formats.capabilities import carrying
from changeling.formats.changefeed import CARRIED, ChangefeedRead, Mode
from changeling.formats.format import Format
from changeling.formats.ydb_json.read import FLAGS, reader
from changeling.formats.ydb_json.types import TYPES
from changeling.formats.ydb_json.write import YdbJsonWrite, writer

FORMAT = Format(
    name="ydb-json",
    summary="YDB's changefeeds, FORMAT = JSON: a key array, a flag, and what the MODE shows of the row",
    read_options=ChangefeedRead,
    write_options=YdbJsonWrite,
    reader=reader,
    writer=writer,
    carries=carrying(*CARRIED, "upsert", "barrier", "ddl", "partial", "transaction"),
    types=TYPES,
    position="step, txId",
    names_table=False,
    feed_modes=tuple(Mode),
    signs=(*(("key", flag) for flag in FLAGS), ("resolved",), ("tableChanges", "ts")),
)
