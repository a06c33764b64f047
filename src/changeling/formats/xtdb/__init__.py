"""`xtdb`: the events of XTDB's topics, one a changed document (seed 002)."""

from changeling.formats.capabilities import carrying
from changeling.formats.format import Format
from changeling.formats.type_table import CANONICAL
from changeling.formats.xtdb.read import XtdbRead, reader
from changeling.formats.xtdb.write import XtdbWrite, writer

FORMAT = Format(
    name="xtdb",
    summary="XTDB's CDC topics: a Debezium envelope around whole documents",
    read_options=XtdbRead,
    write_options=XtdbWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        "read",
        "insert",
        "update",
        "delete",
        "before",
        "after",
        "position",
        "commit_time",
        "transaction",
        "table",
        "catalog",
        "null",
        "null-text",
        "types",
    ),
    types=CANONICAL,
    position="tx_id, data_collection_order",
    counts_transactions=True,
    signs=(("op", "source.tx_id"), ("payload.op", "payload.source.tx_id")),
)
