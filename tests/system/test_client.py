"""The Python client against a real ``rankd up``: over the login socket and the broker, blocking and with asyncio."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from watch import PATIENCE_S

from rankd.bus.login import short_path
from rankd.client import (
    BadRequest,
    Client,
    Closed,
    Conflict,
    JobRequest,
    NotAllowed,
    NotFound,
    NotReady,
    RequestError,
    SyncClient,
    WaitTimeout,
)
from rankd.client.look import look
from rankd.client.step import Effort
from rankd.wire.job_record import JobRecord
from rankd.wire.page import TableFilter
from rankd.wire.rank_record import Why

SLOW = {"nats", "uvloop", "sqlalchemy", "numpy", "asyncio"}
NEVER = {"command": ["true"], "resources": {"vcore": 1000}}
WAYS = ("socket", "broker")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("RANKD_DIR", "RANKD_NATS", "RANKD_DB", "RANKD_CREDS", "RANKD_USER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def started(shared_machine):
    shared_machine.start()
    return shared_machine


@pytest.fixture
def site(started):
    """One for most tests: whatever waits there from other tests never starts."""
    return started


@pytest.fixture
def own_site(machine):
    """For tests of all jobs of a site, or that kill services."""
    machine.start()
    return machine


def options(site, way: str) -> dict:
    """The arguments of a client on this way."""
    creds = {} if way == "socket" else {"creds": site.directory / "auth" / "admin.creds"}
    return {"directory": site.directory, "retry_for_s": PATIENCE_S, **creds}


def as_text(given: dict) -> dict:
    return {name: value if isinstance(value, float) else str(value) for name, value in given.items()}


def considered(rankd: SyncClient, job: int) -> Why:
    """Why a job waits, once it has a rank or a reason. Nobody announces that."""
    until = time.monotonic() + PATIENCE_S
    while (why := rankd.why(job)).reason is None and why.rank is None:
        assert time.monotonic() < until, why
        time.sleep(0.05)
    return why


@pytest.mark.parametrize("way", WAYS)
def test_a_blocking_program_does_all_that_a_user_does(own_site, way, tmp_path):
    with SyncClient(**options(own_site, way)) as rankd:
        job = rankd.submit(JobRequest(command=["sh", "-c", "echo out; echo err >&2; exit 3"], name="three"))
        record = rankd.wait(job.id)
        assert (record.state, record.exit_status, record.name) == ("failed", 3, "three")
        assert b"".join(rankd.logs(job.id)) == b"out\n"
        assert b"".join(rankd.logs(job.id, stream="stderr")) == b"err\n"
        assert [event.event for event in rankd.history(job.id)] == ["submit", "allocate", "start", "fail"]
        never = rankd.submit(NEVER, comment="waits").id
        assert [row.id for row in rankd.queue()] == [never]
        assert [row.id for row in rankd.queue(states=["failed"])] == [job.id]
        assert considered(rankd, never).id == never
        assert rankd.hold(never).done == [never]
        assert rankd.show(never).held
        assert rankd.release([never]).done == [never]
        assert rankd.update(never, name="other", resources={"vcore": 900}).done == [never]
        assert rankd.show(never).name == "other"
        assert rankd.cancel(states=["pending"], dry_run=True).done == [never]
        assert rankd.cancel(never).done == [never]
        assert rankd.wait(never).state == "cancelled"
        again = rankd.retry(job.id)
        assert rankd.wait(again.id).retry_of == job.id
        script = tmp_path / "s.sh"
        script.write_text("#!/bin/sh\necho $1\n")
        of_script = rankd.submit(script, args=["hello"], cwd=str(tmp_path))
        assert rankd.wait(of_script.id).state == "completed"
        assert b"".join(rankd.logs(of_script.id)) == b"hello\n"
        assert rankd.script(of_script.id) == script.read_text()
        text = "#!/bin/sh\n#SBATCH -J lines -n 2 --mail-type=END\necho $SLURM_NTASKS\n"
        lines = rankd.submit(text, cwd=str(tmp_path))
        assert lines.warning.startswith("the job notifies nobody: this site sends no notifications")
        assert rankd.wait(lines.id).name == "lines"
        assert b"".join(rankd.logs(lines.id)) == b"2\n"
        assert {row.id for row in rankd.acct()} == {job.id, never, again.id, of_script.id, lines.id}
        assert rankd.prio() == []
        assert [node.state for node in rankd.nodes()] == ["up"]
        assert {"root", "root.default"} <= {queue.path for queue in rankd.queues()}
        assert rankd.shares()
        events = rankd.events(job.id, after=0)
        assert [next(events).event for _ in range(4)] == ["submit", "allocate", "start", "fail"]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_says_what_an_unmet_dependency_does_can_be_shown_and_waited_for(site, way):
    with SyncClient(**options(site, way)) as rankd:
        first = rankd.submit(command=["false"]).id
        after = [{"type": "afterok", "job": first}]
        asks, stays = (
            rankd.submit(command=["true"], depends_on=after, cancel_if_unmet=asks).id for asks in (True, False)
        )
        assert rankd.wait(asks).state == "cancelled"
        assert [rankd.show(job).cancel_if_unmet for job in (first, asks, stays)] == [None, True, False]


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_of_another_form_is_not_asked_for_again(site, way):
    with SyncClient(**options(site, way)) as rankd:
        with pytest.raises(RequestError, match="can't be read") as error:
            rankd.run(look("queue.list", TableFilter(), JobRecord, Effort(PATIENCE_S)))
        assert (error.value.code, error.value.status, type(error.value)) == ("unexpected_answer", 500, RequestError)


@pytest.mark.parametrize("way", WAYS)
async def test_calls_side_by_side_events_and_arrays(site, way):
    async with Client(**options(site, way)) as rankd:
        seen = []

        async def watch() -> None:
            async for event in rankd.events(after=0):
                seen.append((event.job, event.state))  # noqa: PERF401 - it never ends

        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            array = await rankd.submit(command=["sleep", "0.1"], array="0-3%2")
            jobs = [await rankd.submit(command=["sleep", "0.2"], name=f"j{number}") for number in range(5)]
            ids = [job.id for job in jobs]
            whole, two, some, one = await asyncio.gather(
                rankd.wait(array.id), rankd.wait([f"{array.id}_[0-1]"]), rankd.wait(ids), rankd.wait(f"{array.id}_3")
            )
            assert (array.tasks, whole.state, whole.array) == (4, "completed", None)
            assert [(record.array_job, record.array_task) for record in two] == [(array.id, 0), (array.id, 1)]
            assert [record.id for record in some] == ids
            assert one.array_task == 3
            while not {(id_, "completed") for id_ in [*ids, array.id]} <= set(seen):
                await asyncio.sleep(0.05)
            watching.cancel()
        assert len(seen) == len(set(enumerate(seen)))


@pytest.mark.parametrize("way", WAYS)
async def test_errors_are_of_the_family_of_their_code(site, way):
    async with Client(**options(site, way)) as rankd:
        with pytest.raises(NotFound) as error:
            await rankd.show(999_999)
        assert (error.value.code, error.value.field, error.value.status) == ("unknown_job", "job", 404)
        with pytest.raises(BadRequest) as bad:
            await rankd.submit(command=["true"], queue="nowhere")
        assert (bad.value.code, bad.value.field) == ("unknown_queue", "queue")
        with pytest.raises(NotAllowed):
            await rankd.request("config.reload", {})
        job = await rankd.submit(command=["true"])
        await rankd.wait(job.id)
        with pytest.raises(Conflict) as conflict:
            await rankd.cancel(job.id)
        assert conflict.value.code == "already_ended"
        batch = await rankd.submit([{"command": ["true"]}, {"command": ["true"], "queue": "nowhere"}])
        assert [len(batch.accepted), batch.rejected[0].code] == [1, "unknown_queue"]
        never = await rankd.submit(NEVER)
        with pytest.raises(WaitTimeout) as late:
            await rankd.wait(never.id, timeout_s=0.1)
        assert late.value.left == [never.id]


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_is_cancelled_leaves_the_client_usable(site, way):
    async with Client(**options(site, way)) as rankd:
        never = await rankd.submit(NEVER)
        waiting = [asyncio.ensure_future(rankd.wait(never.id)) for _ in range(3)]  # noqa: TID251 - awaited below
        await rankd.show(never.id)
        for one in waiting[:2]:
            one.cancel()
        done = await asyncio.gather(*waiting[:2], return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done)
        await rankd.cancel(never.id)
        assert (await waiting[2]).state == "cancelled"


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_waits_while_the_client_is_closed_ends(site, way):
    async with Client(**options(site, way)) as rankd:
        never = await rankd.submit(NEVER)
        waiting = asyncio.ensure_future(rankd.wait(never.id))  # noqa: TID251 - awaited below
        await rankd.show(never.id)
    with pytest.raises(Closed):
        await asyncio.wait_for(waiting, PATIENCE_S)


def test_a_thread_that_waits_while_the_client_is_closed_ends(site):
    rankd, errors = SyncClient(**options(site, "broker")), []
    never = rankd.submit(NEVER)

    def wait() -> None:
        with pytest.raises(Closed) as error:
            rankd.wait(never.id)
        errors.append(error.value.code)

    (thread := threading.Thread(target=wait)).start()
    rankd.show(never.id)
    rankd.close()
    thread.join(PATIENCE_S)
    assert errors == ["closed"]


async def test_a_broker_that_is_killed_loses_no_wait_no_submission_and_no_event(own_site):
    async with Client(**options(own_site, "broker")) as rankd:
        running = await rankd.submit(command=["sleep", "2"])
        waiting = asyncio.ensure_future(rankd.wait(running.id))  # noqa: TID251 - awaited below
        await rankd.show(running.id)
        own_site.kill("nats")
        meanwhile = await rankd.submit(command=["true"], key="meanwhile")
        assert (await waiting).state == "completed"
        assert (await rankd.wait(meanwhile.id)).state == "completed"
        assert (await rankd.submit(command=["true"], key="meanwhile")).id == meanwhile.id


async def test_a_gateway_and_an_intake_that_are_killed_are_waited_for(own_site):
    async with Client(**options(own_site, "socket")) as rankd:
        running = await rankd.submit(command=["sleep", "1"])
        waiting = asyncio.ensure_future(rankd.wait(running.id))  # noqa: TID251 - awaited below
        for service in ("gateway", "intake"):
            own_site.kill(service)
        job = await rankd.submit(command=["true"])
        assert [(await waiting).state, (await rankd.wait(job.id)).state] == ["completed"] * 2


class Losing:
    """A login socket that passes requests on, and loses the answers to the first ones."""

    def __init__(self, site, directory, n_lost: int) -> None:
        directory.mkdir(mode=0o700)
        self.directory = directory
        self.n_lost = n_lost
        self._there = site.directory / "login.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        with short_path(directory / "login.sock") as short:
            self._listener.bind(short)
        self._listener.listen()
        up = {**site.up, "login": str(directory / "login.sock")}
        (directory / "up.json").write_text(json.dumps(up))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._pass_on(self._listener.accept()[0])

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as there:
            with short_path(self._there) as short:
                there.connect(short)
            request = client.makefile("rb")
            line = request.readline()
            there.sendall(line + request.read(json.loads(line)["size"]))
            answer = b"".join(iter(lambda: there.recv(65536), b""))
            if self.n_lost:
                self.n_lost -= 1
            else:
                client.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_an_answer_that_is_lost_is_asked_for_again_and_gives_the_same_job(site, tmp_path):
    losing = Losing(site, tmp_path / "losing", 2)
    try:
        with SyncClient(directory=losing.directory, retry_for_s=PATIENCE_S) as rankd:
            [before] = site.rows("SELECT count(*) AS n FROM job")
            job = rankd.submit(NEVER)
            assert losing.n_lost == 0
            assert site.rows("SELECT count(*) AS n FROM job") == [{"n": before["n"] + 1}]
            losing.n_lost = 1
            batch = rankd.submit([NEVER, NEVER])
            assert [one.id for one in batch.accepted] == [job.id + 1, job.id + 2]
            assert site.rows("SELECT count(*) AS n FROM job") == [{"n": before["n"] + 3}]
    finally:
        losing.close()


@pytest.mark.parametrize("way", WAYS)
def test_threads_share_a_blocking_client(site, way):
    with SyncClient(**options(site, way)) as rankd:
        states = []

        def work(number: int) -> None:
            states.append(rankd.wait(rankd.submit(command=["true"], name=f"t{number}").id).state)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert states == ["completed"] * 8


def test_at_a_login_socket_no_nats_no_event_loop_and_no_database_is_imported(site):
    program = (
        "import sys\nfrom rankd.client import SyncClient, NotFound\n"
        f"with SyncClient(directory={str(site.directory)!r}) as rankd:\n"
        "    job = rankd.submit(command=['true'])\n"
        "    assert rankd.wait(job.id).state == 'completed'\n"
        "    rankd.queue(); rankd.why(job.id)\n"
        "    rankd.hold(rankd.submit(command=['true'], resources={'vcore': 1000}).id)\n"
        "    next(rankd.events(after=0))\n"
        f"print(sorted(set(sys.modules) & {SLOW!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_asynchronous_program_at_a_login_socket_needs_no_nats_client(site):
    program = (
        "import sys, asyncio\nfrom rankd.client import Client\n"
        "async def main():\n"
        f"    async with Client(directory={str(site.directory)!r}) as rankd:\n"
        "        print((await rankd.wait((await rankd.submit(command=['true'])).id)).state)\n"
        "asyncio.run(main())\n"
        f"print(sorted(set(sys.modules) & {SLOW - {'asyncio'}!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("completed\n[]\n", "")


def test_ctrl_c_ends_a_wait_over_the_broker(site):
    program = (
        "from rankd.client import SyncClient\n"
        f"with SyncClient(**{as_text(options(site, 'broker'))}) as rankd:\n"
        "    job = rankd.submit(command=['true'], resources={'vcore': 1000})\n"
        "    print(job.id, flush=True)\n"
        "    try:\n        rankd.wait(job.id)\n"
        "    except KeyboardInterrupt:\n        print(rankd.cancel(job.id).done)\n"
    )
    done = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    job = int(done.stdout.readline())
    time.sleep(0)
    os.kill(done.pid, signal.SIGINT)
    assert done.communicate(timeout=PATIENCE_S)[0] == f"[{job}]\n"


def test_credentials_are_found_as_commands_find_them(site, monkeypatch, tmp_path):
    monkeypatch.setenv("RANKD_NATS", site.up["nats"])
    monkeypatch.setenv("RANKD_CREDS", str(site.credentials("user", "alice")))
    with SyncClient() as rankd:
        assert rankd.show(rankd.submit(NEVER).id).user == "alice"
        with pytest.raises(NotAllowed):
            rankd.submit({**NEVER, "user": "bob"})
    monkeypatch.setenv("RANKD_CREDS", str(tmp_path / "none.creds"))
    with pytest.raises(NotReady) as missing:
        SyncClient().queue()
    assert missing.value.code == "no_credentials"
    monkeypatch.delenv("RANKD_NATS")
    monkeypatch.delenv("RANKD_CREDS")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError) as nothing:
        SyncClient(nats="nats://127.0.0.1:1", retry_for_s=0.0).queue()
    assert nothing.value.code == "no_broker"
