"""Brokers for tests: one of a kind for all that ask, ended with the session. A `conftest.py` imports what it wants."""

import atexit
from collections.abc import Iterator
from functools import cache

import pytest

from tests.brokers.broker import Broker, User

ALICE = User("alice", "open sesame 4711")


@cache
def _started(*, guarded: bool) -> Broker:
    made = Broker(user=ALICE, tls=True) if guarded else Broker()
    atexit.register(made.stop)
    return made


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that lets everyone in."""
    started = _started(guarded=False)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def guarded_broker() -> Iterator[Broker]:
    """A broker that also has a listener which asks Alice for her password, and one that speaks TLS."""
    started = _started(guarded=True)
    yield started
    started.stop()
