"""The suite that comes with the package, for Changeling's own formats."""

from changeling.conformance.test_conformance import *  # noqa: F403
