"""`dataworks`: the rows of DataWorks' real-time synchronization, five metadata fields before the columns (seed 001)."""

from changeling.formats.capabilities import carrying
from changeling.formats.dataworks.envelope import AFTER, ALIASES, BEFORE, OPERATION, SEQUENCE, TYPES, is_header_or_row
from changeling.formats.dataworks.options import DataworksRead, DataworksWrite
from changeling.formats.dataworks.read import reader
from changeling.formats.dataworks.write import writer
from changeling.formats.format import Format
from changeling.formats.framing import CsvRows, JsonOrCsv, JsonValues


def _framing(options: DataworksRead) -> JsonOrCsv:
    return JsonOrCsv(JsonValues(), CsvRows(delimiter=options.delimiter, quote=options.quote, header=options.header))


FORMAT = Format(
    name="dataworks",
    summary="DataWorks' rows in JSON or CSV: five metadata fields, then the columns; an update is two rows",
    read_options=DataworksRead,
    write_options=DataworksWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        "insert",
        "update",
        "delete",
        "before",
        "after",
        "key-change",
        "keyless",
        "composite-key",
        "commit_time",
        # A record need not name its table: its full name comes from the topic or from the reader's options.
        "catalog",
        "schema",
        "null",
        "null-text",
        "types",
        "binary",
    ),
    types=TYPES,
    framing=_framing,
    position="sequence id, half",
    names_table=False,
    halves=True,
    signs=tuple((sequence, OPERATION, BEFORE, AFTER) for sequence in (SEQUENCE, ALIASES[SEQUENCE])),
    row_sign=is_header_or_row,
)
