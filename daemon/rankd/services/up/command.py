"""What ``rankd up`` starts: the command line of each service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rankd.bus.address import user_in
from rankd.plugin.interpreter import python_command

SIMULATED = "sim"
"""The name of the agent that has the simulated nodes."""


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. ``nats`` None means the embedded broker, on ``port`` (0: a free one) of ``listen``.

    ``resources`` None means what this machine allows. ``keep_jobs``: running jobs outlive ``rankd up``.
    """

    directory: Path
    config: Path
    simulate: int = 0
    local_agent: bool = True
    agent_name: str
    resources: Mapping[str, str] | None = None
    labels: Mapping[str, str] = {}
    nats: str | None = None
    listen: str = "127.0.0.1"
    port: int = 0
    keep_jobs: bool = False

    @property
    def agents(self) -> list[str]:
        """The names of the agents that run here."""
        return [self.agent_name] * self.local_agent + [SIMULATED] * bool(self.simulate)


def service_commands(options: UpOptions, url: str, database: Path) -> list[tuple[str, list[str]]]:
    """The names and commands of the services in starting order; agents are last."""
    rankd = python_command("rankd")
    place = [*broker_flag(url), "--db", str(database), "--config", str(options.config.absolute())]
    commands = [(name, [*rankd, name, *place]) for name in ("intake", "prioritizer", "scheduler")]
    if options.local_agent:
        local = [*_agent(options, url, options.agent_name, "agent"), "--run-as", "agent"]
        commands.append(("agent", [*rankd, *local, *_given("resources", options.resources), *_labels(options.labels)]))
    if options.simulate:
        simulated = _agent(options, url, SIMULATED, "agent-sim")
        more = ["--simulate", str(options.simulate), *_labels({"simulated": "true"})]
        commands.append(("agent-sim", [*rankd, *simulated, *more]))
    return commands


def broker_flag(url: str) -> list[str]:
    """The broker's option, unless its URL has a password: every user can see a command line."""
    return ["--nats", url] if user_in(url) is None else []


def _agent(options: UpOptions, url: str, name: str, folder: str) -> list[str]:
    state = str(options.directory.absolute() / folder)
    drain = [] if options.keep_jobs else ["--drain-on-stop"]
    return ["agent", *broker_flag(url), "--name", name, "--state", state, *drain]


def _labels(labels: Mapping[str, str]) -> list[str]:
    return _given("labels", labels or None)


def _given(flag: str, pairs: Mapping[str, str] | None) -> list[str]:
    return [] if pairs is None else [f"--{flag}={','.join(f'{name}={value}' for name, value in pairs.items())}"]
