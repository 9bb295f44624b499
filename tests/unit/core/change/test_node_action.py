"""Drain and resume, decided without a database."""

from __future__ import annotations

import pytest

from rankd.core.change.node_action import NodeEvent, NodeStatus, check_node_exists, drain, resume
from rankd.core.errors import Refused
from rankd.core.model.node import NodeState

UP, DRAINING, DOWN, LOST = NodeState.UP, NodeState.DRAINING, NodeState.DOWN, NodeState.LOST


def status(state, is_drained):
    return NodeStatus(state=state, is_drained=is_drained)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("state", "after"), [(UP, DRAINING), (DRAINING, DRAINING), (DOWN, DOWN), (LOST, LOST)])
def test_a_drained_node_takes_no_new_jobs_and_stays_away_if_it_is_away(state, after, before):
    change = drain("n1", status(state, before))
    assert (change.node, change.event, change.after) == ("n1", NodeEvent.DRAIN, status(after, True))


@pytest.mark.parametrize(
    ("before", "after"),
    [((DRAINING, True), UP), ((DRAINING, False), UP), ((DOWN, True), DOWN), ((LOST, True), LOST), ((UP, True), UP)],
)
def test_a_resumed_node_takes_jobs_again_as_soon_as_its_agent_is_there(before, after):
    change = resume("n1", status(*before))
    assert (change.event, change.after) == (NodeEvent.RESUME, status(after, False))


@pytest.mark.parametrize("state", [UP, DOWN, LOST])
def test_a_node_that_is_not_drained_is_not_resumed(state):
    with pytest.raises(Refused, match="node 'n1' is not draining") as caught:
        resume("n1", status(state, False))
    assert (caught.value.code, caught.value.status) == ("not_draining", 409)


def test_an_unknown_node_is_named():
    known = status(UP, False)
    assert check_node_exists("n1", known) is known
    with pytest.raises(Refused, match="there is no node 'n9'; `rankd nodes -N` lists them"):
        check_node_exists("n9", None)
