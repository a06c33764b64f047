"""Broken bytes into every reader: each record is accepted or rejected with a reason; none is lost, nothing is raised."""

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import changeling
from changeling.formats import registry
from changeling.formats.capabilities import FEATURES
from tests.golden.test_golden import CASES, options_of, records_of

DICTIONARY = [
    b"null",
    b"{}",
    b"[]",
    b'""',
    b"-1",
    b"1e400",
    b"99999999999999999999999",
    b'"\\ud800"',
    b"\xff",
    b"\x00",
    b"true",
    b'"x"',
    b"0",
]


def mutated(value: bytes, dice: random.Random) -> bytes:
    """The record with one to three wounds: letters changed, cut out, doubled, swapped for a token, nested."""
    text = bytearray(value)
    for _ in range(dice.randint(1, 3)):
        if not text:
            return bytes(text)
        start = dice.randrange(len(text))
        end = min(len(text), start + dice.choice([1, 1, 2, 5, 20, 200]))
        wound = dice.randrange(6)
        if wound == 0:
            text[start] = dice.randrange(256)
        elif wound == 1:
            del text[start:end]
        elif wound == 2:
            text[end:end] = text[start:end]
        elif wound == 3:
            text[start:end] = dice.choice(DICTIONARY)
        elif wound == 4:
            colon = text.find(b":", start)
            if colon >= 0:
                stop = min(
                    (place for place in (text.find(b",", colon), text.find(b"}", colon)) if place > 0), default=-1
                )
                text[colon + 1 : stop if stop > 0 else colon + 2] = dice.choice(DICTIONARY)
        else:
            text[start:start] = b"[" * dice.choice([1, 600, 5000])
    return bytes(text)


def check_fuzz(name: str, seed: int, rounds: int) -> None:
    dice = random.Random(seed)
    counts: Counter[str] = Counter()
    for case in (case for case in CASES if case.parent.name == name):
        given = [row for row in records_of(case) if row["value"] is not None]
        wounded = [
            {**row, "value": mutated(row["value"].encode(), dice)}
            for row in given
            for _ in range(max(1, rounds // len(given)))
        ]
        changes, rejects = changeling.decode(wounded, name, **options_of(case, "read"))
        accepted = {origin["record"] for origin in changes["origin"].to_pylist()}
        rejected = [origin["record"] for origin in rejects["origin"].to_pylist()]
        counts.update(accepted=len(accepted), rejected=len(rejected))
        assert len(rejected) == len(set(rejected))
        assert accepted.isdisjoint(rejected)
        assert accepted | set(rejected) == set(range(len(wounded)))
        assert all(rejects["reason"].to_pylist())
        assert rejects["raw"].to_pylist() == [wounded[place]["value"] for place in rejected]
        for target in registry.names():
            written_and_refused(changes, target)
    # Wounds that always kill, or never do, would show nothing of the other half.
    assert counts["accepted"] > 0
    assert counts["rejected"] > 0


def written_and_refused(changes: pa.Table, target: str) -> None:
    """Whatever was accepted can be written or is refused, in every format, without a crash."""
    _, rejects = changeling.encode(changes, target, drop=frozenset(FEATURES))
    assert all(rejects["reason"].to_pylist())


@pytest.mark.parametrize("name", registry.names())
def test_broken_records_are_accepted_or_rejected_and_never_lost(name: str) -> None:
    check_fuzz(name, seed=7, rounds=40)


@pytest.mark.soak
@pytest.mark.parametrize("name", registry.names())
def test_many_broken_records(name: str, record_property: Callable[[str, object], None]) -> None:
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    check_fuzz(name, seed=seed, rounds=3_000)
