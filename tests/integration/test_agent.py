"""The agent with a real broker and real processes; the tests play the intake."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from watch import PATIENCE_S, alive, appears, gone

from rankd.bus.connection import Bus
from rankd.bus.health import ask_health
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.session.step import StepEnd
from rankd.services.agent.service import AgentOptions, run
from rankd.services.keeper.orphan import end_kept
from rankd.wire.codec import encode
from rankd.wire.device import DeviceReport
from rankd.wire.message import (
    AllocationMessage,
    ErrorBody,
    Heartbeat,
    JobOrder,
    NodeHooks,
    NodeRegistered,
    NodeRegistration,
    Report,
    ReportMessage,
    ReportsTaken,
    StartJob,
    Take,
    Waits,
)
from rankd.wire.subject import node_of, node_pattern, node_subject

NODE = "n1"


class Intake:
    """Answers the agent and collects what it reports, as the real one would."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.registrations: list[tuple[str, NodeRegistration]] = []
        self.heartbeats: list[Heartbeat] = []
        self.reports: list[tuple[str, Report]] = []
        self.steps: list[StepEnd] = []
        self.forgetful = False
        self.loses_device_answers = False
        self.grace_s = 0.4
        self.max_processes = 4096
        self.orphan_s = 60.0
        self.hooks: NodeHooks | None = None
        self.waiting: list[str] = []
        self.takes: list[tuple[str, Take]] = []
        self.device_reports: list[DeviceReport] = []
        self.times_given: Counter[int] = Counter()
        self._waiting: dict[str, dict[int, StartJob]] = {}
        self._given: dict[str, dict[int, StartJob]] = {}
        self._to_end: dict[str, set[int]] = {}
        self._orders: dict[str, list[JobOrder]] = {}
        self.carried_out: set[int] = set()
        self.loses_carried_out = False
        self._news = asyncio.Condition()

    async def serve(self) -> None:
        await self.bus.client.subscribe(node_pattern("register"), cb=self._register)
        await self.bus.client.subscribe(node_pattern("heartbeat"), cb=self._heartbeat)
        await self.bus.client.subscribe(node_pattern("take"), cb=self._take)
        await self.bus.client.subscribe(node_pattern("report"), cb=self._report)
        await self.bus.client.subscribe(node_pattern("device"), cb=self._device)

    async def _register(self, message) -> None:
        self.registrations.append((node_of(message.subject), msgspec.json.decode(message.data, type=NodeRegistration)))
        self.forgetful = False
        await message.respond(encode(self._answer()))
        await self._tell()

    async def _heartbeat(self, message) -> None:
        self.heartbeats.append(msgspec.json.decode(message.data, type=Heartbeat))
        if self.forgetful:
            body = ErrorBody(code="unknown_node", message="not registered")
            refusal = {"Nats-Service-Error-Code": "404"}
            await self.bus.client.publish(message.reply, encode(body), headers=refusal)
        else:
            await message.respond(encode(self._answer(waiting=self.waiting)))
        await self._tell()

    def _answer(self, **more) -> NodeRegistered:
        return NodeRegistered(
            heartbeat_s=0.1,
            grace_s=self.grace_s,
            max_processes=self.max_processes,
            orphan_s=self.orphan_s,
            hooks=self.hooks,
            **more,
        )

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition):
        """Wait for what the agent sends to make this true."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(condition)
            return condition()

    async def _take(self, message) -> None:
        """As the real one: what waits, what was given and is not known, and what is to end."""
        node, take = node_of(message.subject), msgspec.json.decode(message.data, type=Take)
        self.takes.append((node, take))
        waiting, given = self._waiting.pop(node, {}), self._given.setdefault(node, {})
        if take.known is not None:
            waiting |= {a: s for a, s in given.items() if a not in take.known and not self.of(a, "started", node)}
        given |= waiting
        self.times_given.update(list(waiting))
        cancels = [a for a in sorted(self._to_end.get(node, ())) if not self.of(a, "ended", node)]
        self.carried_out.update(take.carried_out)
        kept = [one for one in self._orders.get(node, []) if self.loses_carried_out or one.id not in take.carried_out]
        self._orders[node] = kept
        await message.respond(encode(AllocationMessage(starts=list(waiting.values()), cancels=cancels, orders=kept)))
        await self._tell()

    async def _report(self, message) -> None:
        node = node_of(message.subject)
        said = msgspec.json.decode(message.data, type=ReportMessage)
        self.steps += said.steps
        self.reports += [(node, report) for report in said.reports]
        await message.respond(encode(ReportsTaken(taken=len(said.reports))))
        await self._tell()

    async def _device(self, message) -> None:
        self.device_reports.append(msgspec.json.decode(message.data, type=DeviceReport))
        if not self.loses_device_answers:
            await message.respond(encode(ReportsTaken(taken=1)))
        await self._tell()

    def of(self, allocation: int, kind: str, node: str = NODE) -> list[Report]:
        return [r for n, r in self.reports if (n, r.allocation, r.kind) == (node, allocation, kind)]

    async def started(self, allocation: int, node: str = NODE) -> Report:
        return (await self.until(lambda: self.of(allocation, "started", node)))[0]

    async def ended(self, allocation: int, node: str = NODE) -> Report:
        return (await self.until(lambda: self.of(allocation, "ended", node)))[0]

    async def order(self, node: str = NODE, starts=(), cancels=(), orders=()) -> None:
        self._orders.setdefault(node, []).extend(orders)
        self._waiting.setdefault(node, {}).update((start.allocation, start) for start in starts)
        self._to_end.setdefault(node, set()).update(cancels)
        await self.bus.publish(node_subject(node, "allocation"), Waits())

    async def start(self, allocation: int, *command: str, node: str = NODE, **request) -> None:
        await self.order(node, starts=[start_of(allocation, *command, nodes=[node], **request)])


def start_of(allocation: int, *command: str, nodes=(NODE,), rank=0, name="hello", **request) -> StartJob:
    return StartJob(
        allocation=allocation,
        job=allocation + 1000,
        user="alice",
        name=name,
        nodes=list(nodes),
        rank=rank,
        resources={"vcore": 1000},
        request=JobRequest(command=list(command), **request),
    )


def options_of(broker, tmp_path: Path, **more) -> AgentOptions:
    ending = {"drain_on_stop_s": 0.0}  # a test leaves nothing running
    return AgentOptions(nats=broker.url, name=NODE, state_dir=tmp_path / "state", **ending | more)


@asynccontextmanager
async def an_intake(broker):
    async with Bus(broker.url, "intake") as bus:
        intake = Intake(bus)
        await intake.serve()
        yield intake


@asynccontextmanager
async def an_agent(options: AgentOptions):
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(options, stop))
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def stage(broker, tmp_path, **options):
    async with an_intake(broker) as intake, an_agent(options_of(broker, tmp_path, **options)):
        yield intake


@asynccontextmanager
async def a_killable_agent(broker, tmp_path, *, ignores=()):
    """One in a process of its own, as only such a one can be killed; it is started to ignore these signals."""
    program = (
        "import asyncio, sys; from pathlib import Path; from rankd.services.agent.service import AgentOptions, run\n"
        "options = AgentOptions(nats=sys.argv[1], name=sys.argv[2], state_dir=Path(sys.argv[3]))\n"
        "asyncio.run(run(options, asyncio.Event()))"
    )
    command = [sys.executable, "-c", program, broker.url, NODE, str(tmp_path / "state")]
    if ignores:
        command = ["sh", "-c", f"trap '' {' '.join(ignores)}; exec \"$@\"", "sh", *command]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def directories(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "state" / "allocations").iterdir()]


async def test_registers_heartbeats_and_says_that_it_is_well(broker, tmp_path):
    async with stage(broker, tmp_path, resources={"vcore": 3}, labels={"disk": "ssd"}, partition="p") as intake:
        await intake.until(lambda: len(intake.heartbeats) > 1)
        expected = NodeRegistration(partition="p", resources={"vcore": 3}, labels={"disk": "ssd"}, agent=NODE)
        [(node, registration)] = intake.registrations
        instance = (tmp_path / "state" / "instance").read_text().strip()
        assert (node, registration) == (NODE, msgspec.structs.replace(expected, instance=instance))
        assert (intake.heartbeats[0].nodes, intake.heartbeats[0].instance) == ([NODE], instance)
        assert (await ask_health(intake.bus, f"agent-{NODE}")).ready


async def test_a_new_registration_says_what_runs(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        intake.forgetful = True
        await intake.until(lambda: len(intake.registrations) == 2)
        assert [registration.running for _, registration in intake.registrations] == [[], [1]]


async def test_the_intake_may_start_later_and_may_forget(broker, tmp_path):
    async with an_agent(options_of(broker, tmp_path)), Bus(broker.url, "probe") as bus:
        async with asyncio.timeout(PATIENCE_S):
            while (await health_or_none(bus)) is None:
                pass
        assert not (await ask_health(bus, f"agent-{NODE}")).ready
        async with an_intake(broker) as intake:
            await intake.until(lambda: intake.heartbeats)
            intake.forgetful = True
            await intake.until(lambda: len(intake.registrations) == 2)


async def health_or_none(bus):
    with suppress(Exception):
        return await ask_health(bus, f"agent-{NODE}")


@pytest.mark.parametrize(
    ("script", "exit_status", "number"), [("exit 0", 0, None), ("exit 3", 3, None), ("kill -KILL $$", None, 9)]
)
async def test_an_end_is_reported_as_it_was(broker, tmp_path, script, exit_status, number):
    async with stage(broker, tmp_path) as intake:
        await intake.start(7, "sh", "-c", script)
        end = await intake.ended(7)
        assert (end.exit_status, end.signal, end.cause, end.job) == (exit_status, number, None, 1007)
        assert end.max_rss_bytes > 0
        assert end.cpu_s >= 0
        started = await intake.started(7)
        assert started.at <= end.at
        assert started.stdout == end.stdout


async def test_directories_go_once_the_end_is_reported_and_the_order_settled(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[start_of(number, "true") for number in range(1, 30)])
        for number in range(1, 30):
            await intake.ended(number)
    assert directories(tmp_path) == []


async def test_output_goes_to_the_default_files(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", "echo out; echo err >&2")
        end = await intake.ended(1)
    assert end.stdout == str(tmp_path / "state/output/alice/job-1001.out")
    assert Path(end.stdout).read_text() == "out\n"
    assert Path(end.stderr).read_text() == "err\n"


async def test_output_patterns_relative_to_the_working_directory(broker, tmp_path):
    cwd = tmp_path / "work"
    cwd.mkdir()
    (cwd / "in").write_text("hello")
    async with stage(broker, tmp_path) as intake:
        await intake.start(
            1, "sh", "-c", "cat; pwd >&2", cwd=str(cwd), stdin="in", stdout="a/%u/%x.%j.%n.%%", stderr=f"{tmp_path}/e"
        )
        await intake.ended(1)
    assert (cwd / "a/alice/hello.1001.n1.%").read_text() == "hello"
    assert (tmp_path / "e").read_text() == f"{cwd}\n"


async def test_both_outputs_may_share_a_file(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(
            1, "sh", "-c", "echo one; echo two >&2; echo three", stdout=f"{tmp_path}/o", stderr=f"{tmp_path}/o"
        )
        await intake.ended(1)
    assert (tmp_path / "o").read_text() == "one\ntwo\nthree\n"


async def test_the_environment_names_the_job_and_its_place(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKD_NATS_PASSWORD", "secret")
    async with stage(broker, tmp_path) as intake:
        start = start_of(5, "env", nodes=["n0", NODE], rank=1, env={"COLOUR": "blue", "RANKD_JOB_ID": "forged"})
        await intake.order(starts=[start])
        end = await intake.ended(5)
    seen = dict(line.split("=", 1) for line in Path(end.stdout).read_text().splitlines())
    assert seen["COLOUR"] == "blue"
    assert seen["PATH"] == os.environ["PATH"]
    assert {key: seen[key] for key in seen if key.startswith("RANKD_") and key != "RANKD_AGENT_STATE"} == {
        "RANKD_JOB_ID": "1005",
        "RANKD_ALLOCATION_ID": "5",
        "RANKD_JOB_NAME": "hello",
        "RANKD_USER": "alice",
        "RANKD_NODELIST": "n0,n1",
        "RANKD_NODE_NAME": "n1",
        "RANKD_NODE_RANK": "1",
        "RANKD_NNODES": "2",
        "RANKD_GPUS": "",
        "RANKD_GPU_IDS": "",
    }


async def test_a_script_without_its_interpreter_says_which_one_is_missing(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        start = start_of(1, "train.sh", "a")
        await intake.order(starts=[msgspec.structs.replace(start, script=b"#!/no/such/python -u\nx = 1\n")])
        end = await intake.ended(1)
    assert (end.exit_status, end.cause) == (127, "start_failed")
    assert "the script's first line names /no/such/python, which does not exist on this node; " in end.message


@pytest.mark.parametrize(
    ("request_", "exit_status", "hint"),
    [
        ({"command": ["no-such-command"]}, 127, "'no-such-command' not found"),
        ({"command": []}, 127, "not found"),
        ({"command": ["/etc/passwd"]}, 126, "execute permission"),
        ({"command": ["true"], "cwd": "/no/such/place"}, 126, "/no/such/place does not exist"),
        ({"command": ["true"], "stdin": "/no/such/file"}, 126, "can't open /no/such/file"),
        ({"command": ["true"], "stdout": "/proc/no/file"}, 126, "can't open /proc/no"),
        ({"command": ["true"], "env": {"a=b": "c"}}, 126, "illegal environment variable name"),
    ],
)
async def test_what_can_not_start_says_what_to_do(broker, tmp_path, request_, exit_status, hint):
    async with stage(broker, tmp_path) as intake:
        command = request_.pop("command")
        await intake.start(1, *command, **request_)
        end = await intake.ended(1)
    assert (end.exit_status, end.cause) == (exit_status, "start_failed")
    assert hint in end.message
    assert not intake.of(1, "started")


async def test_time_limit_ends_the_whole_group_by_term(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", "sleep 1000 & wait", time_limit_s=0.2)
        end = await intake.ended(1)
    assert (end.cause, end.signal) == ("timeout", signal.SIGTERM)


async def test_who_ignores_term_is_killed_after_the_grace(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", time_limit_s=0.2)
        end = await intake.ended(1)
    assert (end.cause, end.signal) == ("timeout", signal.SIGKILL)
    assert end.at - intake.of(1, "started")[0].at >= 0.6
    assert end.started_at == intake.of(1, "started")[0].at


async def test_the_group_has_the_grace_though_its_leader_ends_at_once(broker, tmp_path):
    done = tmp_path / "done"
    on_term = f"sleep 0.1; echo saved > {done}; exit"
    child = f"trap '{on_term}' TERM; echo ready > {tmp_path}/ready; while :; do sleep 0.01; done"
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f'sh -c "{child}" & wait')
        await appears(tmp_path / "ready")
        await intake.order(cancels=[1])
        await intake.ended(1)
        assert done.read_text() == "saved\n"


async def test_what_a_job_leaves_behind_is_killed_when_it_ends(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid")
        end = await intake.ended(1)
        assert end.exit_status == 0
        pid = int((tmp_path / "pid").read_text())
        await gone(pid)


async def test_a_running_job_is_cancelled_once(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sleep", "1000")
        await intake.started(1)
        await intake.order(cancels=[1])
        await intake.order(cancels=[1])
        end = await intake.ended(1)
        assert (end.cause, end.signal) == ("cancel", signal.SIGTERM)
        await intake.start(2, "true")
        await intake.ended(2)
        assert len(intake.of(1, "ended")) == 1


async def test_a_cancel_of_what_has_ended_reports_nothing(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "true")
        await intake.ended(1)
        await intake.order(cancels=[1])
        await intake.start(2, "true")
        await intake.ended(2)
    assert len(intake.of(1, "ended")) == 1


async def test_the_same_start_twice_runs_once(broker, tmp_path):
    count = tmp_path / "count"
    async with stage(broker, tmp_path) as intake:
        start = start_of(1, "sh", "-c", f"echo ran >> {count}; read line < {tmp_path}/fifo")
        os.mkfifo(tmp_path / "fifo")
        await intake.order(starts=[start, start])
        await intake.order(starts=[start])
        await appears(count)
        await intake.order(starts=[start])
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        await intake.ended(1)
        await intake.order(starts=[start])
        await intake.start(2, "true")
        await intake.ended(2)
    assert count.read_text() == "ran\n"
    assert len(intake.of(1, "ended")) == 1


async def test_what_a_hint_says_counts_for_nothing(broker, tmp_path):
    """Whoever may publish there can start nothing."""
    async with stage(broker, tmp_path) as intake:
        forged = AllocationMessage(starts=[start_of(9, "touch", str(tmp_path / "forged"))])
        await intake.bus.client.publish(node_subject(NODE, "allocation"), encode(forged))
        await intake.bus.client.publish(node_subject(NODE, "allocation"), b"{nonsense")
        await intake.start(1, "true")
        assert (await intake.ended(1)).exit_status == 0
    assert not (tmp_path / "forged").exists()


async def test_stopping_ends_jobs_and_says_why(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with an_agent(options_of(broker, tmp_path)):
            await intake.start(1, "sleep", "1000")
            await intake.started(1)
        assert (await intake.ended(1)).cause == "agent_stopped"
        assert directories(tmp_path) == []


async def kill(process) -> None:
    process.kill()
    await asyncio.to_thread(process.wait)


async def test_a_killed_agents_jobs_run_on_and_are_taken_over_by_the_next(broker, tmp_path):
    count = tmp_path / "count"
    os.mkfifo(tmp_path / "fifo")
    start = start_of(1, "sh", "-c", f"echo $$ >> {count}; read line < {tmp_path}/fifo; exit 3")
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.order(starts=[start])
            await intake.started(1)
            pid = int(await appears(count))
            await kill(process)
            assert alive(pid)
        async with an_agent(options_of(broker, tmp_path)):
            await intake.order(starts=[start])
            await intake.until(lambda: [r.running for _, r in intake.registrations][1:] == [[1]])
            await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
            end = await intake.ended(1)
            assert (end.exit_status, end.cause, end.job) == (3, None, 1001)
            assert end.started_at == intake.of(1, "started")[0].at
            assert end.max_rss_bytes > 0
            await intake.order(starts=[start])
            await intake.start(2, "true")
            await intake.ended(2)
        assert count.read_text() == f"{pid}\n"
        assert directories(tmp_path) == []


async def test_a_job_that_was_taken_over_can_be_cancelled(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sleep", "1000")
            await intake.started(1)
            await kill(process)
        async with an_agent(options_of(broker, tmp_path)):
            await intake.order(cancels=[1])
            end = await intake.ended(1)
            assert (end.cause, end.signal) == ("cancel", signal.SIGTERM)


async def test_what_ended_while_no_agent_was_there_is_reported_by_the_next(broker, tmp_path):
    """Its time limit, too, holds without an agent."""
    os.mkfifo(tmp_path / "fifo")
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sh", "-c", f"read line < {tmp_path}/fifo; kill -USR1 $$")
            await intake.start(2, "sleep", "1000", time_limit_s=0.5)
            await intake.started(1)
            await intake.started(2)
            await kill(process)
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        for allocation in (1, 2):
            await appears(tmp_path / f"state/allocations/{allocation}/ended")
        async with an_agent(options_of(broker, tmp_path)):
            first, second = await intake.ended(1), await intake.ended(2)
    assert (first.signal, first.cause) == (signal.SIGUSR1, None)
    assert (second.signal, second.cause) == (signal.SIGTERM, "timeout")


def keeper_of(pid: int) -> int:
    """The parent of the helper, which is the parent of a job's process."""
    return parent_of(parent_of(pid))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_jobs_of_a_killed_keeper_are_lost_and_others_run(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
        pid = int(await appears(tmp_path / "pid"))
        await intake.started(1)
        os.kill(keeper_of(pid), signal.SIGKILL)
        end = await intake.ended(1)
        assert (end.cause, end.exit_status, end.started_at) == ("lost", None, (await intake.started(1)).at)
        await gone(pid)
        await intake.start(2, "true")
        assert (await intake.ended(2)).exit_status == 0


async def test_killed_with_its_keeper_the_jobs_are_lost_and_never_started_again(broker, tmp_path):
    count = tmp_path / "count"
    start = start_of(1, "sh", "-c", f"echo $$ >> {count}; exec sleep 1000")
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.order(starts=[start])
            await intake.started(1)
            pid = int(await appears(count))
            keeper = keeper_of(pid)
            await kill(process)
            os.kill(keeper, signal.SIGKILL)
        async with an_agent(options_of(broker, tmp_path)):
            assert (await intake.ended(1)).cause == "lost"
            await gone(pid)
            await intake.order(starts=[start])
            await intake.start(2, "true")
            await intake.ended(2)
        assert count.read_text() == f"{pid}\n"


async def test_a_keeper_goes_when_its_agent_has_stopped(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
        keeper = keeper_of(int(await appears(tmp_path / "pid")))
    await gone(keeper)


async def test_what_a_killed_agent_left_can_be_ended_without_one(broker, tmp_path):
    state = tmp_path / "state"
    async with an_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
            await intake.started(1)
            keeper = keeper_of(int(await appears(tmp_path / "pid")))
            await kill(process)
        await end_kept(state, grace_s=1)
        await gone(keeper)
        await end_kept(state, grace_s=1)
        async with an_agent(options_of(broker, tmp_path)):
            assert (await intake.ended(1)).cause == "agent_stopped"


async def test_what_ended_while_the_broker_was_away_is_reported_by_the_next_agent(broker, tmp_path):
    async with an_intake(broker) as intake:
        os.mkfifo(tmp_path / "fifo")
        async with a_killable_agent(broker, tmp_path) as process:
            await intake.start(1, "sh", "-c", f"read line < {tmp_path}/fifo; exit 4")
            await intake.started(1)
            broker.kill()
            await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
            await appears(tmp_path / "state/allocations/1/ended")
            process.kill()
        broker.start()
        async with an_agent(options_of(broker, tmp_path)):
            end = await intake.ended(1)
    assert (end.exit_status, end.cause) == (4, None)


async def test_a_broker_killed_in_the_middle_loses_and_doubles_nothing(broker, tmp_path):
    count = tmp_path / "count"
    async with stage(broker, tmp_path) as intake:
        os.mkfifo(tmp_path / "fifo")
        await intake.start(1, "sh", "-c", f"echo ran >> {count}; read line < {tmp_path}/fifo")
        await intake.started(1)
        broker.kill()
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        await appears(tmp_path / "state/allocations/1/ended")
        broker.start()
        assert (await intake.ended(1)).exit_status == 0
        await intake.until(lambda: len(intake.registrations) == 2)
        await intake.start(2, "sh", "-c", f"echo ran >> {count}")
        assert (await intake.ended(2)).exit_status == 0
    assert count.read_text() == "ran\nran\n"
    assert [len(intake.of(n, "ended")) for n in (1, 2)] == [1, 1]


async def test_an_agent_of_another_name_takes_over_what_was_ordered(broker, tmp_path):
    async with an_intake(broker) as intake:
        async with an_agent(options_of(broker, tmp_path, simulate=2)):
            await intake.start(1, "sleep", "0", node="sim-1")
            await intake.ended(1, "sim-1")
        await intake.start(2, "sleep", "0", node="sim-1")
        renamed = msgspec.structs.replace(options_of(broker, tmp_path, simulate=3), name="other")
        async with an_agent(renamed):
            await intake.ended(2, "sim-1")


async def test_two_agents_do_not_share_a_state_directory(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.until(lambda: intake.registrations)
        with pytest.raises(Refused, match="another agent works with"):
            await run(options_of(broker, tmp_path), asyncio.Event())


async def test_simulated_nodes_take_their_time_and_nothing_else(broker, tmp_path):
    async with stage(broker, tmp_path, simulate=3) as intake:
        await intake.start(1, "sleep", "0.2", node="sim-1")
        await intake.start(2, "false", node="sim-2", env={"RANKD_SIMULATE_S": "0"})
        await intake.start(3, "true", node="sim-3", env={"RANKD_SIMULATE_S": "0.1", "RANKD_SIMULATE_EXIT": "9"})
        await intake.start(4, "sleep", "1000", node="sim-3", time_limit_s=0.1)
        await intake.start(5, "sleep", "1000", node="sim-3")
        first = await intake.ended(1, "sim-1")
        assert first.at - (await intake.started(1, "sim-1")).at == pytest.approx(0.2, abs=0.15)
        assert first.exit_status == 0
        assert (await intake.ended(2, "sim-2")).exit_status == 1
        assert (await intake.ended(3, "sim-3")).exit_status == 9
        assert (await intake.ended(4, "sim-3")).cause == "timeout"
        assert sorted(node for node, _ in intake.registrations) == ["sim-1", "sim-2", "sim-3"]
        await intake.until(lambda: intake.heartbeats)
        assert intake.heartbeats[0].nodes == ["sim-1", "sim-2", "sim-3"]
        await intake.start(5, "sleep", "1000", node="sim-3")
        await intake.order("sim-3", cancels=[5])
        assert (await intake.ended(5, "sim-3")).cause == "cancel"
        await intake.start(7, "sleep", "1000", node="sim-1")
        await intake.started(7, "sim-1")
    assert len(intake.of(5, "started", "sim-3")) == 1
    assert not (tmp_path / "state").exists()


async def test_a_gang_has_the_same_allocation_on_several_simulated_nodes(broker, tmp_path):
    async with stage(broker, tmp_path, simulate=2) as intake:
        for node in ("sim-1", "sim-2"):
            await intake.start(1, "sleep", "0", node=node)
        assert (await intake.ended(1, "sim-1")).exit_status == 0
        assert (await intake.ended(1, "sim-2")).exit_status == 0


async def test_an_agent_killed_before_its_directories_are_there_is_given_its_allocations_again(broker, tmp_path):
    """Between the answer and the disk: nothing has started, and the intake counts on it."""
    count = tmp_path / "count"
    async with an_intake(broker) as intake:
        await intake.order(starts=[start_of(1, "sh", "-c", f"echo ran >> {count}")])
        take = encode(Take(agent=NODE))
        await intake.bus.client.request(node_subject(NODE, "take"), take)  # the one that was killed
        async with an_agent(options_of(broker, tmp_path)):
            assert (await intake.ended(1)).exit_status == 0
    assert intake.times_given[1] == 2
    assert count.read_text() == "ran\n"


async def test_an_agent_that_hears_no_hint_is_told_with_its_heartbeat(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.until(lambda: intake.takes)
        intake._waiting[NODE] = {1: start_of(1, "true")}
        intake.waiting = [NODE]
        assert (await intake.ended(1)).exit_status == 0
