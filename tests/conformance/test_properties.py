"""Generated changes through every format: they are read back equal or refused by name, whatever the values are."""

import pytest
from hypothesis import given

from changeling.conformance.cases import batch
from changeling.formats import registry
from changeling.model.change import Change
from tests.conformance.strategies import changes
from tests.conformance.test_conformance import check_pair


@pytest.mark.parametrize("name", registry.names())
@given(change=changes())
def test_a_generated_change_comes_back_or_is_refused(name: str, change: Change) -> None:
    check_pair(change, batch([change]), name)
