"""`arcion-csv`: the CSV files of Arcion's internal CDC format, snapshot rows and realtime rows (seed 000)."""

from changeling.formats.all_text import ALL_TEXT
from changeling.formats.arcion_csv.envelope import is_header_or_row
from changeling.formats.arcion_csv.options import ArcionCsvRead, ArcionCsvWrite
from changeling.formats.arcion_csv.read import framing, reader
from changeling.formats.arcion_csv.write import writer
from changeling.formats.arcion_json.cursor import before_arrival, extraction_time
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format

FORMAT = Format(
    name="arcion-csv",
    summary="Arcion's internal CDC format as CSV: rows of a snapshot, or NEW, OLD and EXISTS of each column",
    read_options=ArcionCsvRead,
    write_options=ArcionCsvWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        # A file is one table, and does not say which: catalog, schema and name come from the reader's options.
        all_but=("truncate", "begin", "commit", "barrier", "ddl", "message", "table", "types"),
    ),
    types=ALL_TEXT,
    framing=framing,
    position="number of the log, position, logSeqNum; or dscId, mutId, partNum; a snapshot's rows come before",
    before_arrival=before_arrival,
    names_table=False,
    extraction_time=extraction_time,
    feed_modes=("UPDATES", "NEW_AND_OLD_IMAGES"),
    row_sign=is_header_or_row,
)
