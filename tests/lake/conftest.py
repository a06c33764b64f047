"""A lake with everything in it: no test of this folder has to make one."""

import pytest

from changeling.pipelines.lakehouse import relocate
from changeling.pipelines.loading import load
from tests.lake.stored import VERSIONS, unpacked
from tests.log.lakes import Shop


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The newest of the stored ones, for the tests of a module: they only read it."""
    made = unpacked(VERSIONS[-1], tmp_path_factory.mktemp("lake"))
    relocate(load(made.file))
    return made
