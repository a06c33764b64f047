"""Why records were rejected, and which dialect they are of where all of them were."""

from changeling.formats.recognition import fitting
from changeling.model.printable import printable
from changeling.reading_changes import Input, Report
from changeling.rejects import RejectSink


def explanation(given: Input, report: Report, rejects: RejectSink) -> list[str]:
    """A line a reason; where no record was accepted, and the last ones look like another dialect, one that names it."""
    lines = [printable(line) for line in rejects.explanation()]
    found = [] if report.accepted else fitting(rejects.recent_values())
    if found and given.form.name not in found:
        lines.append(
            f"these are no records of {given.form.name}: they look like {' or '.join(found)} (--from {found[0]})"
        )
    return lines
