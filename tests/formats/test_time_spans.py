"""Counts of units of time keep every digit, or are refused."""

import pytest

from changeling.formats.time_spans import MICROSECOND, from_count
from changeling.model.errors import Rejected


@pytest.mark.parametrize(
    ("count", "duration"),
    [
        ("12", '"PT0.000012S"'),
        ("-300500", '"PT-0.3005S"'),
        ("1.2e1", '"PT0.000012S"'),
        ("0e9", '"PT0S"'),
        ("0.001", '"PT0.000000001S"'),
        ("123456789012345678901234567890123456789", '"PT34293552503429355250342935525H2M3.456789S"'),
    ],
)
def test_a_count_is_a_duration(count: str, duration: str) -> None:
    assert from_count(MICROSECOND)(count.encode()) == duration.encode()


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        ("-1e4000500", "is not a whole number of microseconds"),
        ("1e-4000500", "is not a whole number of microseconds"),
        ("1e999999999999999999999", "is not a count of microseconds"),
        ("0.0001", "is not a whole number of microseconds"),
        ("1e40", "is not a whole number of microseconds"),
        ("true", "is not a count of microseconds"),
    ],
)
def test_other_numbers_are_refused(count: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        from_count(MICROSECOND)(count.encode())
