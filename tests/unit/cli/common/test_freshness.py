"""What looking commands say of services and nodes that have not been heard of, and until when things are known."""

import pytest

from rankd.cli.common.freshness import Known

NOW = 1_800_000_000.0
FRESH = {"intake": NOW - 3, "prioritizer": NOW - 1, "scheduler": NOW - 4}
STALE = dict.fromkeys(FRESH, NOW - 300)


def test_nothing_is_said_of_services_that_are_heard_of_and_everything_is_known_until_now():
    known = Known(FRESH, {}, NOW)
    assert known.of_services() is None
    assert known.of_nodes(["n1"]) is None
    assert known.of(["n1"]) == NOW


def test_services_that_are_not_heard_of_are_said_since_the_last_of_them_was():
    known = Known(STALE | {"intake": NOW - 290}, {}, NOW)
    said = known.of_services()
    assert said.startswith("the services have not been heard of since ")
    assert said.endswith("(4:50 ago); times and states are as of then")
    assert known.of([]) == NOW - 290


@pytest.mark.parametrize(
    ("silent", "start"),
    [
        (["scheduler"], "the scheduler has not been heard of since"),
        (["prioritizer", "scheduler"], "the prioritizer and the scheduler have not been heard of since"),
    ],
)
def test_some_services_are_named(silent, start):
    known = Known(FRESH | dict.fromkeys(silent, NOW - 60), {}, NOW)
    assert known.of_services().startswith(start)
    assert "as of then" not in known.of_services()
    assert known.until == NOW


def test_a_job_is_known_until_the_first_of_its_nodes_fell_silent():
    known = Known(FRESH, {"n1": NOW - 100, "n2": NOW - 50}, NOW)
    assert known.of(["n1", "n2"]) == NOW - 100
    assert known.of(["n2", "n3"]) == NOW - 50
    assert known.of(["n3"]) == NOW
    assert known.of_nodes(["n3", "n2", "n2"]).startswith("node n2 has not been heard of since ")
    assert known.of_nodes(["n1", "n2"]).startswith("nodes n[1-2] have not been heard of since ")
