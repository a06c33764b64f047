"""What Arcion's three dialects have in common: operations, cursors, names of tables, images."""

import functools

from changeling.formats.all_text import ALL_TEXT
from changeling.formats.arcion import cursor
from changeling.formats.format import Format

NOT_CARRIED = ("truncate", "begin", "commit", "barrier", "ddl", "message", "types")
"""What no record of Arcion expresses."""

dialect = functools.partial(
    Format,
    types=ALL_TEXT,
    position="number of the log, position, logSeqNum; or dscId, mutId, partNum; a snapshot's rows come before",
    before_arrival=cursor.before_arrival,
    extraction_time=cursor.extraction_time,
    feed_modes=("UPDATES", "NEW_AND_OLD_IMAGES"),
)
"""A `Format` with what all three have."""
