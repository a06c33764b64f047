"""What a soak went through: the tests with their seeds, so that any of them can be gone through again."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import settings


def covered(reports: Mapping[str, Iterable[Any]]) -> list[str]:
    """One line a test, of what pytest reports of all its cases."""
    ran = [report for kind in ("passed", "failed") for report in reports.get(kind, ()) if report.when == "call"]
    tests: dict[str, list[Any]] = defaultdict(list)
    for report in sorted(ran, key=lambda report: str(report.nodeid)):
        tests[report.nodeid.partition("[")[0]].append(report)
    return [_line(name, cases) for name, cases in tests.items()]


def _line(name: str, cases: list[Any]) -> str:
    failed = sum(case.failed for case in cases)
    seconds = sum(case.duration for case in cases)
    parts = [f"{len(cases)} case{'s'[: len(cases) > 1]}, {failed} failed, {seconds:.0f} s"]
    if any("generated" in case.keywords for case in cases):
        parts.append(f"up to {settings().max_examples:,} examples each")
    reported: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        for property_, value in case.user_properties:
            if not property_.startswith("hypothesis"):
                reported[property_].append(str(value))
    parts += [f"{property_} {', '.join(values)}" for property_, values in reported.items()]
    return f"{name}: {'; '.join(parts)}"
