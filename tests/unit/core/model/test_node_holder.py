"""Which agent may represent a node."""

import pytest

from rankd.core.model.node import NodeState
from rankd.core.model.node_holder import Agent, Holder, is_taken, refusal

NOW = 1_795_269_168.0
FIRST, SECOND = Agent(name="n1", instance="a"), Agent(name="n1", instance="b")
OLD, OTHER = Agent(name="n1"), Agent(name="n2")
UP, DRAINING, DOWN, LOST = NodeState.UP, NodeState.DRAINING, NodeState.DOWN, NodeState.LOST


def taken(holder, claimant, state=UP, silent_s=1.0, listened=True):
    return is_taken(Holder(agent=holder, state=state, heard_at=NOW - silent_s), claimant, NOW, 60.0, listened=listened)


@pytest.mark.parametrize("state", [UP, DRAINING, DOWN])
def test_another_instance_waits_until_the_first_has_been_silent_for_long_enough(state):
    assert taken(FIRST, SECOND, state)
    assert taken(FIRST, SECOND, state, silent_s=59.9)
    assert not taken(FIRST, SECOND, state, silent_s=60.1)


def test_silence_counts_only_while_the_intake_listens():
    assert taken(FIRST, SECOND, silent_s=1e6, listened=False)


def test_a_lost_node_may_be_taken_at_once():
    assert not taken(FIRST, SECOND, LOST, listened=False)


@pytest.mark.parametrize("state", list(NodeState))
def test_the_same_instance_is_accepted_at_once_whatever_its_name(state):
    assert not taken(FIRST, FIRST, state, listened=False)
    assert not taken(FIRST, Agent(name="n2", instance="a"), state, listened=False)


def test_where_no_instance_is_known_the_name_decides():
    assert not taken(OLD, FIRST)
    assert not taken(FIRST, OLD)
    assert taken(OLD, OTHER)
    assert not taken(OLD, OTHER, DOWN)
    assert not taken(OLD, OTHER, silent_s=60.1, listened=False)


def test_the_refusal_names_the_other_one_when_it_was_heard_of_and_what_to_do():
    refused = refusal("n1", Holder(agent=FIRST, state=UP, heard_at=NOW), 60.0)
    assert (refused.code, refused.status) == ("node_taken", 409)
    for part in ("'n1'", "instance a", "2026-11-21T13:52:48Z", "--name", "stop the other", "60 s"):
        assert part in refused.message
