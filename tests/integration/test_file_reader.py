"""Files of jobs, read by a process with the rights of the job's user: real processes and real files."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from integration.test_agent_user import needs_root, reachable  # noqa: F401 - a fixture
from watch import PATIENCE_S

from rankd.core.errors import Refused
from rankd.services.agent.identity import RunAs
from rankd.services.agent.log_file import FileOf, LogFiles
from rankd.services.agent.user_reader import ReaderLost, UserReaders


@pytest.fixture
async def readers():
    """As the agent's own user."""
    found = UserReaders(lambda _user: None)
    yield found
    for reader in found._readers.values():
        reader.end()


async def read_all(log, size: int) -> bytes:
    parts, done = [], 0
    while done < size:
        part = await log.read(done, size - done)
        assert part.data
        parts.append(part.data)
        done += len(part.data)
    return b"".join(parts)


async def test_the_bytes_are_those_of_the_file_at_any_size(readers, tmp_path):
    chance = random.Random(7)
    files = LogFiles(readers, lambda _allocation: False)
    for number, size in enumerate((0, 1, 65_536, 262_144, 262_145, chance.randrange(3_000_000))):
        path = tmp_path / str(number)
        path.write_bytes(content := chance.randbytes(size))
        file = FileOf("alice", str(path), number, None, appends=False)
        log = files.use(file)
        assert await log.size() == size
        assert await read_all(log, size) == content
        await files.leave(file)


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"", 3, b""), (b"a\nb\nc\n", 2, b"b\nc\n"), (b"a\nb\nc", 2, b"b\nc"), (b"a\n", 5, b"a\n"), (b"a\nb\n", 0, b""),
        (b"x" * 200_000 + b"\n" + b"y" * 200_000 + b"\nz", 2, b"y" * 200_000 + b"\nz"),
    ],
)  # fmt: skip
async def test_the_last_lines(readers, tmp_path, content, lines, expected):
    (path := tmp_path / "log").write_bytes(content)
    log = LogFiles(readers, lambda _allocation: False).use(FileOf("alice", str(path), 1, None, appends=False))
    begin = await log.tail(lines)
    assert content[begin:] == expected


async def test_a_process_that_is_killed_is_replaced(readers, tmp_path):
    (path := tmp_path / "log").write_bytes(b"hello")
    log = LogFiles(readers, lambda _allocation: False).use(FileOf("alice", str(path), 1, None, appends=False))
    assert (await log.read(0, 10)).data == b"hello"
    reader = await readers.of("alice")
    os.kill(reader._process.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        assert (await log.read(1, 10)).data == b"ello"
    with pytest.raises(ReaderLost):
        await reader.read(0, 0, 1)


async def test_what_is_no_file_of_the_job_is_refused(readers, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "old").write_bytes(b"of an earlier job")
    os.utime(tmp_path / "old", (1_000.0, 1_000.0))
    files = LogFiles(readers, lambda _allocation: False)
    for name, code in (("pipe", "log_unreadable"), ("none", "log_gone"), ("old", "log_gone"), (".", "log_unreadable")):
        with pytest.raises(Refused) as refused:
            await files.use(FileOf("alice", str(tmp_path / name), 1, 5_000.0, appends=False)).size()
        assert refused.value.code == code
    old = files.use(FileOf("alice", str(tmp_path / "old"), 1, 5_000.0, appends=True))
    assert (await old.read(0, 100)).data == b"of an earlier job"


@needs_root
async def test_a_users_link_to_a_file_of_roots_is_read_with_the_users_rights(reachable):  # noqa: F811
    """Also where the user can't read Python's own files: the process drops root's rights by itself."""
    readers = UserReaders(RunAs(mode="submitter").identity)
    secret, own = reachable / "secret", reachable / "own"
    secret.write_bytes(b"root's")
    secret.chmod(0o600)
    own.write_bytes(b"nobody's")
    own.chmod(0o644)
    (reachable / "link").symlink_to(secret)
    files = LogFiles(readers, lambda _allocation: False)
    assert (await files.use(FileOf("nobody", str(own), 1, None, appends=False)).read(0, 100)).data == b"nobody's"
    with pytest.raises(Refused) as refused:
        await files.use(FileOf("nobody", str(reachable / "link"), 1, None, appends=False)).read(0, 100)
    assert refused.value.code == "log_unreadable"
    pid = (await readers.of("nobody"))._process.pid
    status = Path(f"/proc/{pid}/status").read_text()
    for line in ("Uid", "Gid"):
        numbers = next(one for one in status.splitlines() if one.startswith(f"{line}:")).split()[1:]
        assert len(set(numbers)) == 1
        assert numbers[0] != "0"
    for reader in readers._readers.values():
        reader.end()
