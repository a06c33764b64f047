"""`arcion-native`: what Arcion writes to Kafka with `replication-format: NATIVE`."""

from changeling.formats.all_text import ALL_TEXT
from changeling.formats.arcion_json.cursor import before_arrival, extraction_time
from changeling.formats.arcion_native.read import ArcionNativeRead, reader
from changeling.formats.arcion_native.write import ArcionNativeWrite, writer
from changeling.formats.capabilities import carrying
from changeling.formats.format import Format

FORMAT = Format(
    name="arcion-native",
    summary="Arcion's NATIVE format for Kafka: full images of texts, null for a missing side",
    read_options=ArcionNativeRead,
    write_options=ArcionNativeWrite,
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
    signs=(("opType", "cursor"),),
    yields_to=("arcion-json",),
)
