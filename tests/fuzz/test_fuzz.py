"""A small, fixed part of ``make fuzz``: every reader, and a running site."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from fuzz.hostile import Hostile
from fuzz.live import fuzz_site
from fuzz.run import MOST_S, Run, fuzz
from fuzz.target import NODE_KINDS, OF_REQUESTS, USER_KINDS, Target, keep_letter, read_submitted
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.wire.codec import decode_of_node, decode_strict

INPUTS, SEED = 20_000, 1
SITE_INPUTS = 2_000


def test_no_reader_raises_hangs_or_grows():
    report = fuzz(INPUTS, SEED)
    assert report["findings"] == []
    assert report["inputs"] == INPUTS
    assert all(found["inputs"] for found in report["targets"].values())


def test_inputs_reach_behind_the_decoders():
    """Most inputs are refused at once; some have to be accepted, or only decoders were tested."""
    report = fuzz(INPUTS // 10, SEED + 1)
    for name in ("requests of users", "messages of nodes", "submissions", "subjects"):
        outcomes = report["targets"][name]["outcomes"]
        assert outcomes["read"] > 0
        assert len(outcomes) > 1 or name == "subjects"


@pytest.mark.timeout(900)
async def test_a_running_site_answers_all_and_goes_on():
    report = await fuzz_site(SITE_INPUTS, SEED)
    assert report["findings"] == []
    assert report["answers"]["answered"] > 0


def test_the_same_seed_makes_the_same_inputs():
    made = [[Hostile(seed).document(["a"], {}) for seed in ("1 1", "1 2", "2 1")] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 1


def test_what_breaks_a_bound_is_found():
    def fails(_given):
        raise KeyError("x")

    def is_slow(_given):
        until = time.process_time() + MOST_S + 0.1
        while time.process_time() < until:
            pass

    run = Run(SEED, {"fails": Target(Hostile.noise, fails, (ValueError,))})
    run.one(0)
    assert "KeyError" in run.findings[0].what
    run = Run(SEED, {"slow": Target(Hostile.noise, is_slow, ())})
    run.one(0)
    assert "processor time" in run.findings[0].what


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
PAYLOADS = st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode())


@given(PAYLOADS)
@settings(max_examples=300, deadline=None)
def test_whatever_hypothesis_finds_every_message_is_read_or_refused(payload):
    """Its inputs are smaller than those of the seed, and it reports the smallest one that fails."""
    for kind in USER_KINDS:
        with suppress(*OF_REQUESTS):
            decode_strict(payload, kind)
    for kind in NODE_KINDS:
        with suppress(*OF_REQUESTS):
            decode_of_node(payload, kind)
    with suppress(*OF_REQUESTS):
        read_submitted((payload, None, False))
    keep_letter(payload)
