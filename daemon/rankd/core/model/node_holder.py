"""Which agent represents a node, and when another one may take its place.

An agent is identified by its ``instance``, the random id of its state directory. So two agents of the same name can be
distinguished. An empty instance is unknown (simulated nodes, agents of older versions). Then the agent's name decides.
"""

from __future__ import annotations

import msgspec

from rankd.core.errors import Refused
from rankd.core.instant import shown_instant
from rankd.core.model.node import NodeState

NODE_TAKEN = "node_taken"
NODE_NOT_KNOWN = "node_not_known"


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that claims to represent a node."""

    name: str
    instance: str = ""

    def is_same(self, other: Agent) -> bool:
        """Whether both have the same state directory; compared by name if one of them has no instance.

        >>> Agent(name="n1", instance="a").is_same(Agent(name="n1", instance="b"))
        False
        >>> Agent(name="n1", instance="a").is_same(Agent(name="n1"))
        True
        """
        if self.instance and other.instance:
            return self.instance == other.instance
        return self.name == other.name


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that represents a node according to the records. ``heard_at``: its last heartbeat, in UTC seconds."""

    agent: Agent
    state: NodeState
    heard_at: float


def is_taken(holder: Holder, claimant: Agent, now: float, lost_after_s: float, *, listened: bool) -> bool:
    """Whether the node belongs to another agent than the claimant.

    It does until that agent has been silent for ``lost_after_s``. If one of the two agents has no instance, the node is
    also free as soon as its agent has left. ``listened``: whether the intake has run long enough for silence to count.
    """
    if holder.agent.is_same(claimant) or holder.state is NodeState.LOST:
        return False
    if not (holder.agent.instance and claimant.instance):
        return holder.state is not NodeState.DOWN and holder.heard_at > now - lost_after_s
    return not listened or holder.heard_at > now - lost_after_s


def refusal(node: str, holder: Holder, lost_after_s: float) -> Refused:
    """The refusal for the claimant: which agent represents the node, when it was last heard, and what to do."""
    instance = f" with another state directory (instance {holder.agent.instance})" if holder.agent.instance else ""
    message = (
        f"agent '{holder.agent.name}'{instance} represents node '{node}', last heard of at "
        f"{shown_instant(holder.heard_at)}; start this agent with another --name, or stop the other agent (it is "
        f"replaced after {lost_after_s:g} s of silence)"
    )
    return Refused(NODE_TAKEN, message, "agent", status=409)
