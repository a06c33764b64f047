"""Timestamps: RFC 3339 with the fewest exact digits, and ISO-8601 as dialects write it."""

import pytest

from changeling.model.errors import Rejected
from changeling.model.times import from_units, parse, to_text


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_703_505_330_123_000_000, "2023-12-25T11:55:30.123Z"),
        (1_703_505_330_123_456_000, "2023-12-25T11:55:30.123456Z"),
        (1_703_505_330_000_000_001, "2023-12-25T11:55:30.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_text_of_a_moment(nanos: int, text: str) -> None:
    assert to_text(nanos) == text
    assert parse(text) == (nanos, True)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2025-09-02T21:00:28+01:00", "2025-09-02T20:00:28Z"),
        ("2025-09-02 21:00:28-0330", "2025-09-03T00:30:28Z"),
        ("2025-09-02T21:00Z", "2025-09-02T21:00:00Z"),
        ("2020-08-12T00:00:00.000000Z", "2020-08-12T00:00:00Z"),
        ("2020-08-12", "2020-08-12T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2023-12-25T10:15:30+01:00[Europe/Paris]", "2023-12-25T09:15:30Z"),
    ],
)
def test_forms_that_are_read(text: str, same: str) -> None:
    assert to_text(parse(text)[0]) == same


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "2023-02-30T00:00:00Z", "2023-12-25T25:00:00Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Rejected):
        parse(text)


def test_times_that_64_bits_cannot_hold_are_rejected() -> None:
    assert from_units(9_223_372_036_854, 1_000_000) == 9_223_372_036_854_000_000
    with pytest.raises(Rejected, match="1677 to 2262"):
        from_units(9_223_372_036_855, 1_000_000)
