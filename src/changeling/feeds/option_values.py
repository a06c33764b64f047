"""The options of changefeeds, and what each takes. A reader raises ValueError with what a value must be."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from changeling.feeds.feed import DAY, Setting
from changeling.formats import registry
from changeling.formats.changefeed import Mode
from changeling.formats.time_spans import months_and_nanos
from changeling.model import times
from changeling.model.errors import nearest
from changeling.model.times import is_span, span_millis

YDB_NAMES = {
    "JSON": "ydb-json",
    "DYNAMODB_STREAMS_JSON": "ydb-dynamodb",
    "DEBEZIUM_JSON": "ydb-debezium",
}
"""What YDB calls the formats of its changefeeds."""
_MONTH = 30 * DAY
_MAX_SECONDS = 36_525 * DAY
_MAX_DIGITS = 19
_LONGEST_DURATION = 40


@dataclass(frozen=True)
class Interval:
    """A duration of SQL, `Interval('PT1H')`."""

    text: str


Value: TypeAlias = Setting | Interval


def _mode(value: Value) -> str:
    found = Mode.named(_text(value))
    assert found is not None
    return found.value


def _format(value: Value) -> str:
    text = _text(value)
    found = YDB_NAMES.get(text.upper()) or registry.ALIASES.get(text.lower(), text.lower())
    if found not in registry.names():
        raise ValueError(f"there is no format {text!r}; {nearest(text, [*YDB_NAMES, *registry.names()])}")
    return found


def _text(value: Value) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text, not {_shown(value)}")
    return value


def _flag(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    raise ValueError(f"must be TRUE or FALSE, not {_shown(value)}")


def _count(value: Value) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_DIGITS:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"must be a whole number, 1 or more, not {_shown(value)}")
    return value


def _seconds(value: Value) -> int:
    """Whole seconds of an ISO-8601 duration, or of a span such as `10s`."""
    text = value.text if isinstance(value, Interval) else value
    if not isinstance(text, str) or len(text) > _LONGEST_DURATION:
        raise ValueError(f"must be a duration such as 'PT1H', not {_shown(value)}")
    if is_span(text):
        nanos = Fraction(span_millis(text) * times.NANOS_PER_MILLI)
    else:
        months, nanos = months_and_nanos(text)
        if months:
            raise ValueError(f"{text!r} has years or months, which have no fixed length: write days, as in 'P30D'")
    seconds = nanos / times.NANOS_PER_SECOND
    if seconds <= 0:
        raise ValueError(f"{text!r} must be longer than nothing")
    if seconds.denominator != 1:
        raise ValueError(f"{text!r} must be whole seconds")
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years")
    return int(seconds)


def _retention(value: Value) -> int:
    seconds = _seconds(value)
    if seconds > _MONTH:
        raise ValueError("records are kept for 30 days at most")
    return seconds


def _no_trace_ids(value: Value) -> None:
    if _flag(value):
        raise ValueError("changes have no trace ids: no source gives them")


def _no_auto_partitioning(value: Value) -> None:
    text = _text(value).upper()
    if text not in ("ENABLED", "DISABLED"):
        raise ValueError(f"must be 'ENABLED' or 'DISABLED', not {_shown(value)}")
    if text == "ENABLED":
        raise ValueError(
            "the number of partitions is fixed for a feed's life, so that a row stays in its partition; "
            "give TOPIC_MIN_ACTIVE_PARTITIONS"
        )


def _sink(value: Value) -> None:
    if _text(value).lower() != "local":
        raise ValueError(f"there is no sink {value!r}: it is 'local'; other topics are declared in the pipeline file")


def _shown(value: Value) -> str:
    if isinstance(value, Interval):
        return f"Interval({value.text!r})"
    return str(value).upper() if isinstance(value, bool) else repr(value)


READERS: dict[str, Callable[[Value], Any]] = {
    "FORMAT": _format,
    "MODE": _mode,
    "VIRTUAL_TIMESTAMPS": _flag,
    "BARRIERS_INTERVAL": _seconds,
    "SCHEMA_CHANGES": _flag,
    "USER_SIDS": _flag,
    "TRACE_IDS": _no_trace_ids,
    "INITIAL_SCAN": _flag,
    "RETENTION_PERIOD": _retention,
    "TOPIC_MIN_ACTIVE_PARTITIONS": _count,
    "TOPIC_MAX_ACTIVE_PARTITIONS": _count,
    "TOPIC_AUTO_PARTITIONING": _no_auto_partitioning,
    "AWS_REGION": _text,
    "SINK_TYPE": _sink,
}
"""Every option, by its name; those that only have a wrong value give None."""
ALIASES = {"RESOLVED_TIMESTAMPS": "BARRIERS_INTERVAL"}
"""Other names of options."""


def is_option(spelled: str, name: str) -> bool:
    """Whether a user's spelling names that option."""
    upper = spelled.upper()
    return name.upper() in (upper, ALIASES.get(upper))
