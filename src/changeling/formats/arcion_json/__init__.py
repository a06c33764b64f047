"""`arcion-json`: the JSON files of Arcion's internal CDC format, of all its modes (seed 000)."""

from changeling.formats.all_text import ALL_TEXT
from changeling.formats.arcion_json.cursor import before_arrival, extraction_time
from changeling.formats.arcion_json.read import ArcionJsonRead, reader
from changeling.formats.arcion_json.write import ArcionJsonWrite, writer
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format

FORMAT = Format(
    name="arcion-json",
    summary="Arcion's internal CDC format as JSON: every value as text, presence in `exists`, order in `cursor`",
    read_options=ArcionJsonRead,
    write_options=ArcionJsonWrite,
    reader=reader,
    writer=writer,
    carries=carrying(
        all_but=("truncate", "begin", "commit", "barrier", "ddl", "message", "null-text", "types"),
    ),
    types=ALL_TEXT,
    position="number of the log, position, logSeqNum; or dscId, mutId, partNum; a snapshot's rows come before",
    before_arrival=before_arrival,
    extraction_time=extraction_time,
    feed_modes=("UPDATES", "NEW_AND_OLD_IMAGES"),
    signs=(("opType", "exists"),),
)
