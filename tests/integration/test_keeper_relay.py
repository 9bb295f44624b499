"""Interactive processes in a real keeper: their streams, bit for bit, whatever connection breaks."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from integration.test_keeper_full_disk import mounted
from relay_reader import RelayReader
from watch import PATIENCE_S

from rankd.bus.liveness import Loops
from rankd.client.attachment import LEFT_OUT
from rankd.services.agent import attach_session as agent_session
from rankd.services.keeper import relay_frame as kinds
from rankd.services.keeper.link import KeeperLink
from rankd.services.keeper.message import EndJob, KeepJob, SignalJob, StartStep, StepHappened
from rankd.services.keeper.proc import Launch, Session
from rankd.services.keeper.relay import INPUT_WINDOW_BYTES
from rankd.services.keeper.relay_process import socket_of
from rankd.services.keeper.ring import REPLAYED_BYTES, WINDOW_BYTES
from rankd.services.keeper.state import AgentState, Claim
from rankd.wire.message import Report
from rankd.wire.session import FIRST, OFFSET, Again, Alive, AttachWish, Grant

PART = 65_536
GRANT = Grant(
    user="alice", node="n1", job=1, attempt=1, allocation=1, owner="alice", session="s1", issued_at=0.0,
    expires_at=3_600.0, started_at=0.0, state="running", wish=AttachWish(),
)  # fmt: skip


class Node:
    """A keeper with a state directory, as an agent uses it."""

    def __init__(self, tmp_path: Path, state: AgentState) -> None:
        self.directory = tmp_path
        self.state = state
        self.reports: list[Report] = []
        self.steps: list[StepHappened] = []
        self.readers: list[RelayReader] = []
        self.news = asyncio.Condition()
        self.link = KeeperLink(state.root, self._on_report, self._on_lost)
        self.link.on_step = self._on_step

    async def _on_lost(self) -> None:
        raise AssertionError("the keeper has ended")

    def _on_report(self, report: Report) -> None:
        self.reports.append(report)
        self._tell()

    def _on_step(self, step: StepHappened) -> None:
        self.steps.append(step)
        self._tell()

    def _tell(self) -> None:
        async def tell() -> None:
            async with self.news:
                self.news.notify_all()

        self.group.create_task(tell())

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S), self.news:
            await self.news.wait_for(condition)
        return condition()

    def start(self, *command: str, allocation: int = 1, **session) -> RelayReader:
        """Start an interactive job; its reader, which connects when it is asked to."""
        name = str(allocation)
        self.state.claim([Claim(allocation=allocation, job=allocation)])
        plan = Launch(
            command=list(command),
            environment=dict(os.environ) | {"TERM": "xterm"},
            cwd=str(self.directory),
            stdin=None,
            stdout=str(self.directory / f"{name}.out"),
            stderr=str(self.directory / f"{name}.err"),
            append=False,
            session=Session(name=name, **session),
        )
        self.link.ask(KeepJob(allocation=allocation, job=allocation, plan=plan, time_limit_s=None, grace_s=0.2))
        return self.reader(name)

    def reader(self, name: str, session: bytes = b"s1") -> RelayReader:
        self.readers.append(RelayReader(socket_of(self.state.root, name), session))
        return self.readers[-1]

    def step(self, *command: str, step: str = "s", **session) -> RelayReader:
        session = Session(name=step, **session)
        self.link.ask(StartStep(allocation=1, step=step, command=list(command), session=session))
        return self.reader(step)

    async def ended(self, allocation: int = 1) -> Report:
        return await self.until(
            lambda: next((r for r in self.reports if r.allocation == allocation and r.kind == "ended"), None)
        )

    def file(self, suffix: str, allocation: int = 1) -> bytes:
        return (self.directory / f"{allocation}.{suffix}").read_bytes()


@asynccontextmanager
async def a_node(tmp_path: Path):
    with AgentState(tmp_path / "state") as state:
        node = Node(tmp_path, state)
        await node.link.connect()
        async with asyncio.TaskGroup() as node.group:
            listening = node.group.create_task(node.link.run(Loops().add("keeper")))
            yield node
            for reader in node.readers:
                reader.cut()
            await node.link.close(keeps_jobs=True)
            await listening


@pytest.fixture
async def node(tmp_path):
    async with a_node(tmp_path) as made:
        yield made


async def in_thread(action, *arguments):
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(action, *arguments)


async def test_both_streams_arrive_in_order_and_are_in_the_files(node):
    reader = node.start("sh", "-c", "echo out; echo err >&2; cat; exit 7")
    reader.connect().send(kinds.INPUT, 0, b"in\n")
    reader.send(kinds.INPUT_ENDS, 3)
    assert await in_thread(reader.until_end) == 7
    report = await node.ended()
    assert (report.exit_status, bytes(reader.output), bytes(reader.errors)) == (7, b"out\nin\n", b"err\n")
    assert (node.file("out"), node.file("err")) == (b"out\nin\n", b"err\n")


async def test_input_that_is_sent_again_is_answered_again(node):
    """The first answer may have been lost with a broker. Without another one the client would wait for ever."""
    reader = node.start("cat")
    reader.connect()
    await in_thread(reader.until, lambda: reader.taken == 0)
    for _ in range(3):
        reader.taken = -1
        reader.send(kinds.INPUT, 0, b"once\n")
        await in_thread(reader.until, lambda: reader.taken == 5)
        await in_thread(reader.until, lambda: reader.output == b"once\n")
    reader.send(kinds.INPUT_ENDS, 5)
    assert await in_thread(reader.until_end) == 0
    assert reader.output == b"once\n"


async def test_a_reader_that_resumes_has_read_what_is_before(node, monkeypatch):
    """The confirmations may have been lost with the agent. Without them the process would wait for room for ever."""
    reader = node.start("head", "-c", str(WINDOW_BYTES + 500_000), "/dev/zero")
    with monkeypatch.context() as lossy:
        passed = reader.send
        lossy.setattr(reader, "send", lambda kind, *rest: kind == kinds.OUTPUT_READ or passed(kind, *rest))
        reader.connect()
        await in_thread(reader.until, lambda: len(reader.output) >= WINDOW_BYTES)
    reader.connect()
    assert await in_thread(reader.until_end) == 0
    assert len(reader.output) == WINDOW_BYTES + 500_000


@pytest.mark.parametrize("seed", range(3))
async def test_megabytes_pass_bit_for_bit_through_cut_connections(node, seed):
    """Input goes to ``cat``; each cut loses what was on its way, and both sides go on from their offsets."""
    chance = random.Random(seed)
    content = chance.randbytes(chance.randrange(3_000_000, 5_000_000))
    reader = node.start("cat")

    def talk() -> None:
        reader.connect().until(lambda: reader.taken == 0)
        sent = 0
        while len(reader.output) < len(content):
            if chance.random() < 0.05:
                reader.taken = -1
                reader.connect()
                reader.until(lambda: reader.taken >= 0)
                sent = reader.taken
            while sent < min(len(content), reader.taken + INPUT_WINDOW_BYTES):
                part = content[sent : min(sent + chance.randrange(1, PART), reader.taken + INPUT_WINDOW_BYTES)]
                reader.send(kinds.INPUT, sent, part)
                sent += len(part)
            if len(reader.output) < len(content):  # else the rest came while it waited for the greeting
                reader.read(chance.randrange(1, PART))
        reader.send(kinds.INPUT_ENDS, len(content))
        assert reader.until_end() == 0

    await in_thread(talk)
    assert reader.output == content
    await node.ended()
    assert node.file("out") == content


async def test_output_waits_for_a_reader_and_a_detached_job_does_not(node):
    """A job whose output nobody reads stands still at the window's end; once nobody is to read it, it goes on."""
    reader = node.start("sh", "-c", "head -c 5000000 /dev/zero; echo done")
    reader.connect()
    await in_thread(reader.until, lambda: reader.output)
    reader.cut()
    assert len(reader.output) < WINDOW_BYTES < 5_000_000
    other = node.reader("1").connect(replays=True)
    assert not [report for report in node.reports if report.kind == "ended"]
    other.send(kinds.DETACHED)
    await node.ended()
    assert len(node.file("out")) == 5_000_005


async def test_who_comes_again_to_a_job_that_writes_all_the_time_hears_what_has_gone_and_gets_the_rest(node):
    """The session's agent says which bytes are only in the file; the relay keeps those behind until they are read."""
    reader = node.start("sh", "-c", "while :; do head -c 100000 /dev/zero; done").connect()
    await in_thread(reader.until, lambda: len(reader.output) >= PART)
    reader.send(kinds.DETACHED)
    file, read = node.directory / "1.out", len(reader.output)
    heard: asyncio.Queue[tuple[int, int, bool]] = asyncio.Queue()

    async def send(_subject, data, headers):
        if data and OFFSET in headers:
            heard.put_nowait((int(headers[OFFSET]), len(data), headers.get(FIRST) == headers[OFFSET]))
        return True

    place = agent_session.Node(node.state.root, node.link, lambda _allocation: None, lambda _task, _cause: None)
    session = agent_session.AttachSession(GRANT, AttachWish(offsets={"stdout": read}), place, send, bool)
    try:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            while file.stat().st_size < read + 3 * WINDOW_BYTES:
                await asyncio.sleep(0.01)
            running = group.create_task(session.run())
            await session._carry_out(Alive(), "client")
            begin, size, is_first = await heard.get()
            assert begin > read
            assert is_first, "the client hears that the bytes before have gone"
            end = begin + size
            while end < begin + WINDOW_BYTES // 2:  # meanwhile the client reads the file
                offset, size, _ = await heard.get()
                assert offset == end
                end += size
            await session._carry_out(Again(stream="stdout", offset=begin), "client")
            while (await heard.get())[0] != begin:
                pass
            running.cancel()
    finally:
        node.link.ask(EndJob(allocation=1, cause="cancel", grace_s=0.1))
        await node.ended()


async def test_a_full_disk_of_its_file_stops_neither_the_job_nor_its_reader(node):
    with mounted(node.directory / "disk") as disk:
        filler = disk / "filler"
        node.directory = disk
        script = f"head -c 6000000 /dev/zero; echo full; while [ -e {filler} ]; do sleep 0.05; done; echo after; exit 3"
        with filler.open("xb") as file:
            file.write(b"x" * 3_000_000)
        reader = node.start("sh", "-c", script).connect()
        await in_thread(reader.until, lambda: reader.output.endswith(b"full\n"))
        filler.unlink()
        assert await in_thread(reader.until_end) == 3
        assert bytes(reader.output) == bytes(6_000_000) + b"full\nafter\n"
        await node.ended()
        there, said, after = node.file("out").partition(b"\n[rankd: ")
        assert LEFT_OUT.search(node.file("out"))
        missing, _, rest = after.partition(b" bytes are missing here: the disk was full]\n")
        assert there + bytes(int(missing)) + rest == bytes(reader.output)
        assert said


async def test_who_attaches_later_sees_the_last_part_again(node):
    reader = node.start("sh", "-c", f"head -c {2 * WINDOW_BYTES} /dev/zero; echo ready; read x; echo $x")
    reader.connect()
    await in_thread(reader.until, lambda: reader.output.endswith(b"ready\n"))
    later = node.reader("1", b"s2").connect(replays=True)
    await in_thread(later.until, lambda: later.output.endswith(b"ready\n"))
    assert len(later.output) == REPLAYED_BYTES
    later.send(kinds.INPUT, 0, b"hello\n")
    assert await in_thread(later.until_end) == 0
    assert later.output.endswith(b"ready\nhello\n")


async def test_a_terminal_has_a_size_a_session_and_its_users_interrupt(node):
    script = "stty size; tty; trap 'stty size; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    reader = node.start("sh", "-c", script, pty=True, rows=33, columns=101)
    reader.connect()
    await in_thread(reader.until, lambda: b"ready" in reader.output)
    assert reader.output.startswith(b"33 101\r\n/dev/pts/")
    reader.send(kinds.SIZE, 0, kinds.SIZES.pack(44, 90))
    reader.send(kinds.INPUT, 0, b"\x03")
    assert await in_thread(reader.until_end) == 3
    assert b"44 90" in reader.output
    await node.ended()
    assert node.file("out") == reader.output


async def test_the_end_of_input_of_a_terminal_ends_its_reader(node):
    reader = node.start("cat", pty=True)
    reader.connect().send(kinds.INPUT, 0, b"x\n")
    reader.send(kinds.INPUT_ENDS, 2)
    assert await in_thread(reader.until_end) == 0


async def test_an_interactive_command_that_does_not_exist_ends_as_any_other(node):
    node.start("no-such-command")
    report = await node.ended()
    assert (report.cause, report.exit_status) == ("start_failed", 127)
    assert not list((node.state.root / "sessions").iterdir())


async def test_a_shell_shares_the_jobs_directory_environment_and_end(node):
    """It is no reason for the job to go on, and does not outlive it."""
    reader = node.start("sh", "-c", "echo begun; read x")
    reader.connect()
    await in_thread(reader.until, lambda: reader.output)
    shell = node.step("sh", "-c", "pwd; echo $TERM; exec sleep 1000")
    shell.connect()
    await in_thread(shell.until, lambda: shell.output.count(b"\n") == 2)
    assert shell.output == f"{node.directory}\nxterm\n".encode()
    reader.send(kinds.INPUT_ENDS, 0)
    assert await in_thread(shell.until_end) == -9
    assert (await node.ended()).exit_status == 1
    assert [step.kind for step in node.steps] == ["started", "ended"]


async def test_a_step_has_a_status_of_its_own_and_an_ended_job_takes_none(node):
    node.start("sleep", "1000")
    await node.until(lambda: node.reports)
    shell = node.step("sh", "-c", "cat >&2; exit 5")
    shell.connect().send(kinds.INPUT, 0, b"abc")
    shell.send(kinds.INPUT_ENDS, 3)
    assert (await in_thread(shell.until_end), bytes(shell.errors)) == (5, b"abc")
    ended = await node.until(lambda: next((s for s in node.steps if s.kind == "ended"), None))
    assert ended.exit_status == 5
    node.link.ask(EndJob(allocation=1, cause="cancel", grace_s=0.1))
    await node.ended()
    node.step("true", step="late")
    late = await node.until(lambda: next((s for s in node.steps if s.step == "late"), None))
    assert late.kind == "ended"
    assert late.exit_status is None


async def test_a_step_that_cannot_be_executed_leaves_no_descriptors(node):
    node.start("sleep", "1000")
    await node.until(lambda: node.reports)
    counts = []
    for number in range(6):
        name = f"missing{number}"
        node.step("/no/such/command", step=name, pty=bool(number % 2))
        await node.until(lambda name=name: any(s.step == name and s.kind == "ended" for s in node.steps))
        counts.append(len(list(Path(f"/proc/{keeper_of(node)}/fd").iterdir())))
    assert max(counts[1:]) <= counts[0] + 1
    node.link.ask(EndJob(allocation=1, cause="cancel", grace_s=0.1))
    await node.ended()


async def test_a_signal_reaches_the_jobs_processes(node):
    reader = node.start("sh", "-c", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done")
    reader.connect()
    await in_thread(reader.until, lambda: reader.output)
    node.link.ask(SignalJob(allocation=1, number=2))
    assert await in_thread(reader.until_end) == 4
    assert reader.output == b"ready\ncaught\n"


async def test_a_job_that_kills_its_relay_harms_only_itself(node):
    """Its output has no reader any more. Its end is reported, and the next job runs."""
    reader = node.start("sh", "-c", "read relay; kill -9 $relay; exit 6")
    reader.connect()
    await in_thread(reader.until, lambda: reader.taken == 0)
    reader.send(kinds.INPUT, 0, f"{relay_of(node)}\n".encode())
    assert (await node.ended()).exit_status == 6
    after = node.start("echo", "well", allocation=2)
    after.connect()
    assert await in_thread(after.until_end) == 0


def keeper_of(node: Node) -> int:
    """The keeper: the process on the other side of the agent's socket."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "keeper.service" in words and str(node.state.root) in words:
                return int(entry.name)
    raise AssertionError("there is no keeper")


def relay_of(node: Node) -> int:
    """The process that serves the first session: it has the command line of the helper, and the job's file open."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                links = {str(link.readlink()) for link in (entry / "fd").iterdir()}
            except OSError:
                continue
            if any(b"helper.py" in word for word in words) and str(node.directory / "1.out") in links:
                return int(entry.name)
    raise AssertionError("there is no relay")
