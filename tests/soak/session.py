"""Sessions under faults: `rankd logs -f`, `run`, `attach`, `shell` and steps as real commands, compared with what was
written.

They sleep between the pieces of their input, and before they are stopped or killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress

from soak.cluster import BIN, Cluster
from soak.session_verdict import STRUCK, Part, Seen
from soak.workload import NOTE, USERS

PER_SECOND = 0.4
NO_BROKER = b"no NATS server"
"""What a command says that could not connect: it was started during a fault."""
RETRY_S = "600"
"""How long a client repeats a submission. On a busy machine, an intake that is often killed is away for long."""
SAID_BYTES = 300
LARGEST_BYTES = 3_000_000
MOST_PIECES = 12
LONGEST_PAUSE_S = 0.3
ENDINGS = (None, None, None, None, None, "kill", "end", "stall")
"""What happens to a client: mostly nothing."""
KILLED_BEFORE_S = 30.0
"""No client is killed in the last seconds: its job is ended only :data:`soak.cluster.ORPHAN_S` later."""


class Client:
    """One command and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.out, self.errors = bytearray(), bytearray()

    async def read(self, into: bytearray, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(65_536):
            into += part

    async def ended(self) -> int:
        await asyncio.gather(self.read(self.out, self.process.stdout), self.read(self.errors, self.process.stderr))
        return await self.process.wait()


class Sessions:
    """``seen``: every session that has ended. ``refused``: what no session could be begun for."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.seen: list[Seen] = []
        self._cluster = cluster
        self._random = random.Random(seed)
        self._begun: dict[asyncio.Task[None], str] = {}
        self._clients: list[asyncio.subprocess.Process] = []
        self._room = cluster.directory / "sessions"

    async def run(self, seconds: float) -> None:
        """Begin sessions for ``seconds``. They go on until their jobs have ended."""
        self._room.mkdir()
        loop, number = asyncio.get_running_loop(), 0
        end = loop.time() + seconds
        while loop.time() < end:
            name = f"session-{number}"
            number += 1
            task = loop.create_task(self._one(name, may_be_killed=loop.time() < end - KILLED_BEFORE_S))
            self._begun[task] = name
            await asyncio.sleep(self._random.expovariate(PER_SECOND))

    async def settle(self, patience_s: float) -> list[str]:
        """Wait for all clients; says which of them has not ended."""
        if self._begun:
            await asyncio.wait(self._begun, timeout=patience_s)
        late = [f"{name}: its client has not ended" for task, name in self._begun.items() if not task.done()]
        for process in self._clients:
            with suppress(ProcessLookupError):
                process.kill()
        for task in self._begun:
            task.cancel()
        ends = await asyncio.gather(*self._begun, return_exceptions=True)
        errors = [error for error in ends if isinstance(error, Exception)]
        return late + [f"a session could not be judged: {error!r}" for error in errors]

    async def _one(self, name: str, *, may_be_killed: bool) -> None:
        size = int(LARGEST_BYTES ** self._random.random())
        content = self._random.randbytes(size)
        ending = self._random.choice(ENDINGS) if may_be_killed else None
        kinds: list[Callable[[str, bytes, str | None], Coroutine[None, None, Seen]]]
        kinds = [self._run, self._run_errors, self._logs, self._attach, self._shell, self._step]
        self.seen.append(await self._random.choice(kinds)(name, content, ending))

    async def _run(self, name: str, content: bytes, ending: str | None) -> Seen:
        """What is written to the command comes back, and is in the job's file."""
        file = self._room / f"{name}.out"
        client = await self._job(name, "cat", "-o", str(file))
        status = await self._followed(client, content, ending)
        return Seen(name, Part.WHOLE, content, bytes(client.out), status, ending, file, said=bytes(client.errors))

    async def _run_errors(self, name: str, content: bytes, ending: str | None) -> Seen:
        """The same on standard error, where rankd's own lines stand before and after it; and another exit status."""
        client = await self._job(name, "cat >&2; exit 9")
        status = await self._followed(client, content, ending)
        said = bytes(client.errors)
        return Seen(name, Part.WITHIN, content, said, status, ending, None, 9, said=said[-SAID_BYTES:])

    async def _logs(self, name: str, content: bytes, ending: str | None) -> Seen:
        """A job that writes its file in pieces is followed, from before its start."""
        user, output = self._random.choice(USERS), self._room / f"{name}.out"
        submit = [
            "submit",
            "--retry-for",
            RETRY_S,
            "--as",
            user,
            "--no-requeue",
            "--parsable",
            "-J",
            name,
            "-o",
            str(output),
        ]
        submitted = Client(await self._start(*submit, "--", "sh", "-c", self._writer(name, content) + "exit 9"))
        if await submitted.ended():
            return Seen(name, Part.WHOLE, b"", b"", 125, said=bytes(submitted.errors))
        client, status = await self._asked(["logs", "-f", "--as", user, submitted.out.decode().strip()], None, ending)
        return Seen(name, Part.WHOLE, content, bytes(client.out), status, ending, output, 9, said=bytes(client.errors))

    async def _attach(self, name: str, content: bytes, ending: str | None) -> Seen:
        """A client is killed. Another one sees the last part of what was written, and is heard."""
        user, last = self._random.choice(USERS), self._random.randbytes(2_000)
        first = await self._job(name, self._writer(name, content) + "exec cat", "--detach-ok", user=user)
        reading = asyncio.get_running_loop().create_task(first.read(first.out, first.process.stdout))
        errors = asyncio.get_running_loop().create_task(first.read(first.errors, first.process.stderr))
        while not first.out and not reading.done():
            await asyncio.sleep(0.05)
        with suppress(ProcessLookupError):
            first.process.kill()
        await asyncio.gather(reading, errors, first.process.wait())
        if (record := self._cluster.record_of(name)) is None:
            return Seen(name, Part.WHOLE, b"", b"", 125, said=bytes(first.errors))
        job = str(record["id"])
        client, status = await self._asked(["attach", "--as", user, job], last, ending)
        if ending in STRUCK:  # else it would wait for ever for somebody who joins it
            await self._asked(["cancel", "--as", user, job], None, None)
        return Seen(
            name,
            Part.END,
            content + last,
            bytes(client.out),
            status,
            ending,
            None,
            0,
            bytes(first.out),
            bytes(client.errors),
        )

    async def _shell(self, name: str, content: bytes, ending: str | None) -> Seen:
        """What is written to a command in a running job comes back, and its end is recorded."""
        user = self._random.choice(USERS)
        submitted = await self._submitted(name, user, "exec sleep 120")
        if (job := await self._running(name)) is None:
            return Seen(name, Part.WHOLE, b"", b"", 125, ending, said=bytes(submitted.errors), step=9)
        words = ["shell", "--as", user, str(job), "--", "sh", "-c", "cat; exit 9"]
        client, status = await self._asked(words, content, ending)
        await self._asked(["cancel", "--as", user, str(job)], None, None)
        return Seen(name, Part.WHOLE, content, bytes(client.out), status, ending, said=bytes(client.errors), step=9)

    async def _step(self, name: str, content: bytes, _ending: str | None) -> Seen:
        """A script starts a step with input, whose output and status it keeps. Nothing happens to its client."""
        user, file, output, errors = self._random.choice(USERS), *(self._room / f"{name}.{end}" for end in "ioe")
        file.write_bytes(content)
        run = f"{BIN / 'rankd'} run --nats {self._cluster.links['client'].url} --as {user} -- sh -c 'cat; exit 9'"
        again = f"[ $s = 125 ] && ! [ -s {output} ] && grep -q '{NO_BROKER.decode()}' {errors}"
        script = f"while :; do {run} <{file} >{output} 2>{errors}; s=$?; {again} || exit $s; done"
        submitted = await self._submitted(name, user, script)
        while (job := self._cluster.record_of(name)) is None or job["ended_at"] is None:
            if submitted.process.returncode:
                break
            await asyncio.sleep(0.2)
        said = errors.read_bytes() if errors.exists() else bytes(submitted.errors)
        shown = output.read_bytes() if output.exists() else b""
        status = 125 if job is None or job["exit_status"] is None else job["exit_status"]
        return Seen(name, Part.WHOLE, content, shown, status, None, None, 9, said=said, step=9)

    async def _submitted(self, name: str, user: str, script: str) -> Client:
        """The command that submitted a job, ended."""
        words = ["submit", "--retry-for", RETRY_S, "--as", user, "--no-requeue", "-J", name, "-o", "/dev/null"]
        client = Client(await self._start(*words, "--", "sh", "-c", script))
        await client.ended()
        return client

    async def _running(self, name: str) -> int | None:
        """The id of the job, once it runs; None if it has ended before."""
        while (job := self._cluster.record_of(name)) is not None and job["state"] in ("pending", "allocated"):
            await asyncio.sleep(0.1)
        return job["id"] if job is not None and job["state"] == "running" else None

    def _writer(self, name: str, content: bytes) -> str:
        """A script that writes the content in pieces."""
        file, pieces = self._room / name, self._random.randint(1, MOST_PIECES)
        file.write_bytes(content)
        block = len(content) // pieces + 1
        pause = self._random.uniform(0, LONGEST_PAUSE_S)
        piece = f"dd if={file} bs={block} skip=$n count=1 status=none; sleep {pause:.2f}"
        return f"n=0; while [ $n -lt {pieces} ]; do {piece}; n=$((n + 1)); done; "

    async def _job(self, name: str, script: str, *options: str, user: str | None = None) -> Client:
        cluster = self._cluster
        note = NOTE.format(starts=cluster.starts, locks=cluster.locks, clashes=cluster.clashes)
        words = ["run", "--retry-for", RETRY_S, "--as", user or self._random.choice(USERS), "-J", name, *options]
        return Client(await self._start(*words, "--", "sh", "-c", note + script))

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        env = {key: value for key, value in os.environ.items() if not key.startswith("RANKD")}
        place = ["--nats", self._cluster.links["client"].url]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            str(BIN / "rankd"), words[0], *place, *words[1:], stdin=pipe, stdout=pipe, stderr=pipe,
            cwd=self._cluster.directory, env=env,
        )  # fmt: skip
        self._clients.append(process)
        return process

    async def _asked(self, words: list[str], given: bytes | None, ending: str | None) -> tuple[Client, int]:
        """Start a client of a job, again if it finds no broker, and follow it to its end; also its exit status."""
        while True:
            client = Client(await self._start(*words))
            status = await self._followed(client, given, ending)
            if NO_BROKER not in client.errors or client.out:
                return client, status

    async def _followed(self, client: Client, given: bytes | None, ending: str | None) -> int:
        """Write the input in pieces, let the client's end come over it, and read all; returns its exit status."""
        writing = asyncio.get_running_loop().create_task(self._write(client.process, given or b""))
        striking = asyncio.get_running_loop().create_task(self._strike(client.process, ending))
        status = await client.ended()
        writing.cancel()
        striking.cancel()
        await asyncio.gather(writing, striking, return_exceptions=True)
        return status

    async def _write(self, process: asyncio.subprocess.Process, given: bytes) -> None:
        block = len(given) // self._random.randint(1, MOST_PIECES) + 1
        with suppress(OSError):
            for begin in range(0, len(given), block):
                process.stdin.write(given[begin : begin + block])
                await process.stdin.drain()
                await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE_S))
            process.stdin.close()

    async def _strike(self, process: asyncio.subprocess.Process, ending: str | None) -> None:
        await asyncio.sleep(self._random.uniform(0.5, 5))
        with suppress(ProcessLookupError):
            if ending == "stall":
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(self._random.uniform(0.5, 5))
                process.send_signal(signal.SIGCONT)
            elif ending is not None:
                process.send_signal(signal.SIGKILL if ending == "kill" else signal.SIGTERM)
