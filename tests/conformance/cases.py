"""The cases of the suite, which comes with the package."""

from changeling.conformance.cases import *  # noqa: F403
