"""The broker for tests: one for all that ask, ended with the session. A `conftest.py` imports what it wants."""

import atexit
from collections.abc import Iterator
from functools import cache

import pytest

from tests.brokers.broker import Broker, User

ALICE = User("alice", "open sesame 4711")


@cache
def _started() -> Broker:
    made = Broker(user=ALICE, tls=True)
    atexit.register(made.stop)
    return made


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that lets everyone in."""
    started = _started()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[Broker]:
    """The same broker, for its listener that asks Alice for her password, and the one that speaks TLS."""
    started = _started()
    yield started
    started.stop()
