"""What may be reported about devices, and what follows from it."""

import math

import msgspec
import pytest

from rankd.core.errors import Refused
from rankd.core.model.device import Device, DeviceState
from rankd.core.model.device_report import DeviceNote, DeviceUse, check_uses, in_words, merged, outdated

USE = DeviceUse(allocation=1, id="g0", recent=0.5, busy=3.0, samples=6, peak_bytes=5, idle_s=9.0)
IMPOSSIBLE = [
    {"busy": math.nan},
    {"busy": math.inf, "samples": 6},
    {"busy": -0.1},
    {"busy": 6.1},
    {"samples": -1},
    {"samples": 10**7},
    {"recent": 1.5},
    {"recent": math.nan},
    {"peak_bytes": -1},
    {"peak_bytes": 2**63},
    {"idle_s": -1.0},
    {"idle_s": math.inf},
]


@pytest.mark.parametrize("wrong", IMPOSSIBLE, ids=str)
def test_impossible_amounts_are_refused(wrong):
    check_uses([USE, DeviceUse(allocation=1, id="g1")])
    with pytest.raises(Refused):
        check_uses([USE, msgspec.structs.replace(USE, **wrong)])


TAKEN = DeviceNote(id="g0", state=DeviceState.TAKEN, by="4711 bob")
BROKEN = DeviceNote(id="g0", state=DeviceState.OK, fault="XID 79")


def test_an_error_stays_until_another_one_replaces_it():
    assert merged(None, TAKEN) == TAKEN
    assert merged(BROKEN, TAKEN).fault == "XID 79"
    assert merged(BROKEN, msgspec.structs.replace(TAKEN, fault="XID 48")).fault == "XID 48"


WORDS = {
    "gpu 0 has failed: XID 79": BROKEN,
    "gpu 0 is taken by process 4711 of bob": TAKEN,
    "gpu 0 is taken": msgspec.structs.replace(TAKEN, by=""),
    "gpu 0 can't be used at present: it hangs": DeviceNote(id="g0", state=DeviceState.FAILED, reason="it hangs"),
    "gpu 0 is free of other processes": DeviceNote(id="g0", state=DeviceState.OK),
}


@pytest.mark.parametrize("text", WORDS)
def test_a_note_is_said_in_words(text):
    assert in_words(WORDS[text], "gpu 0") == text


def test_a_registration_ends_the_notes_of_other_states_and_no_errors():
    listed = [Device(model="a100", id="g0", index=0, state=DeviceState.TAKEN), Device(model="a100", id="g1", index=1)]
    assert outdated({"g0": TAKEN}, listed) == [], "it stays known who takes it"
    assert outdated({"g1": msgspec.structs.replace(TAKEN, id="g1"), "gone": TAKEN, "x": BROKEN}, listed) == [
        "g1",
        "gone",
    ]
