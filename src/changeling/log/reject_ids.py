"""The names of rejected records: their source, and their place there. In Python for ingest, in SQL for replays."""

from changeling.model.change import Origin

REJECT_ID = (
    "CASE WHEN origin.file IS NULL "
    "THEN concat(source, ':', origin.topic, '/', origin.partition, '@', origin.offset, "
    "CASE WHEN origin.ordinal > 0 THEN concat('~', origin.ordinal) ELSE '' END) "
    "ELSE concat(source, ':', origin.file, '#', origin.record) END"
)
"""The same as `reject_id`, in SQL over rows of the log."""


def reject_id(source: str, origin: Origin) -> str:
    """The name of a rejected record: its source, and its place there.

    The number of its topic distinguishes a topic from one that was recreated under the same name.
    """
    if origin.file is None:
        recreated = f"~{origin.ordinal}" if origin.ordinal else ""
        return f"{source}:{origin.topic}/{origin.partition}@{origin.offset}{recreated}"
    return f"{source}:{origin.file}#{origin.record}"
