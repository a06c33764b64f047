"""A soak reports what it covered, so that it can be repeated."""

from types import SimpleNamespace

from hypothesis import settings

from tests.soaking import covered


def report(case: str, seconds: float, *, failed: bool = False, generated: bool = False, **properties: object) -> object:
    return SimpleNamespace(
        when="call",
        nodeid=f"tests/test_x.py::{case}",
        duration=seconds,
        failed=failed,
        keywords={"generated": 1} if generated else {},
        user_properties=[("hypothesis-statistics", "…"), *properties.items()],
    )


def test_each_test_is_reported_once_with_the_seeds_of_all_its_cases() -> None:
    passed = [
        report("test_long[b]", 61.2, seed=7),
        report("test_long[a]", 1, seed=5),
        report("test_drawn", 2, generated=True),
    ]
    setup = SimpleNamespace(when="setup")
    assert covered({"passed": [*passed, setup], "failed": [report("test_long[c]", 2, failed=True, seed=9)]}) == [
        f"tests/test_x.py::test_drawn: 1 case, 0 failed, 2 s; up to {settings().max_examples:,} examples each",
        "tests/test_x.py::test_long: 3 cases, 1 failed, 64 s; seed 5, 7, 9",
    ]
