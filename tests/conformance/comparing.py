"""When two changes are equal: as the suite says, which comes with the package."""

from changeling.conformance.comparing import *  # noqa: F403
