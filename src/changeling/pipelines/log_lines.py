"""Records of Python's `logging` as lines: JSON for programs, text with a time for files and services."""

import json
import logging
from datetime import UTC, datetime

from changeling.model.printable import printable


class JsonLines(logging.Formatter):
    """One object a record: time, level, event, pipeline, what the event has, and the sentence for people as `text`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        event = {"time": _time(record), "level": record.levelname.lower()}
        for name in ("event", "pipeline"):
            if hasattr(record, name):
                event[name] = getattr(record, name)
        return json.dumps({**event, **getattr(record, "members", {}), "text": record.getMessage().strip()})


class TextLines(logging.Formatter):
    """`2026-01-02T03:04:05.678Z WARNING shop: drop batch 1: …`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        pipeline = getattr(record, "pipeline", record.name)
        return printable(f"{_time(record)} {record.levelname:<7} {pipeline}: {record.getMessage().strip()}")


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
