"""Input is sent once and in order, whatever part of it has to be sent again."""

import asyncio
import itertools
import os
import random

import pytest
from watch import PATIENCE_S

from rankd.client.input_pump import AGAIN_S, InputPump, Window
from rankd.wire.session import INPUT_MESSAGE_BYTES, INPUT_WINDOW_BYTES


class Taker:
    """The other side: takes what continues, and loses some messages."""

    def __init__(self, seed: int) -> None:
        self.content = b""
        self.ended = False
        self.pump = None
        self._chance = random.Random(seed)

    async def send(self, offset: int, part: bytes) -> None:
        assert offset + len(part) - len(self.content) <= INPUT_WINDOW_BYTES
        if self._chance.random() < 0.2:
            self.pump.again()
        elif offset <= len(self.content):
            self.content += part[len(self.content) - offset :]
        self.pump.taken(len(self.content), end=False)
        await asyncio.sleep(0)

    async def send_end(self, offset: int) -> None:
        assert offset == len(self.content)
        self.pump.taken(offset, end=True)


@pytest.mark.parametrize("seed", range(5))
async def test_every_byte_arrives_once_although_messages_are_lost(tmp_path, seed):
    content = random.Random(seed).randbytes(700_000)
    (tmp_path / "in").write_bytes(content)
    taker, descriptor = Taker(seed), os.open(tmp_path / "in", os.O_RDONLY)
    taker.pump = InputPump(descriptor, taker.send, taker.send_end)
    taker.pump.start()
    async with asyncio.timeout(PATIENCE_S):
        await taker.pump.run()
    os.close(descriptor)
    assert taker.content == content


@pytest.mark.parametrize("seed", range(5))
def test_no_more_is_on_its_way_than_the_other_side_has_room_for(seed):
    """Pipes give parts of any size, and what was taken is confirmed in any parts."""
    window, chance = Window(), random.Random(seed)
    most = 0
    for _ in range(2_000):
        if not window.is_full:
            window.add(bytes(chance.randrange(1, INPUT_MESSAGE_BYTES + 1)))
        while window.next() is not None:
            pass
        most = max(most, window.sent - window.taken)
        window.take(chance.randrange(window.taken, window.sent + 1))
    assert INPUT_WINDOW_BYTES / 2 < most <= INPUT_WINDOW_BYTES


@pytest.mark.parametrize("content", [b"", b"first"])
async def test_what_comes_before_the_process_has_its_streams_is_sent_again_at_once(tmp_path, content):
    """Nobody says that it was lost. Without progress, each pause is twice as long."""
    (tmp_path / "in").write_bytes(content)
    times, clock = [], asyncio.get_running_loop().time

    async def send(offset, part):
        times.append(clock())
        assert (offset, part) == (0, content)
        if len(times) > 3:
            pump.taken(len(part), end=False)
        else:
            pump.taken(0, end=False)  # as a relay says when an agent joins it

    async def send_end(offset):
        times.append(clock())
        if len(times) > 3:
            pump.taken(offset, end=True)

    descriptor = os.open(tmp_path / "in", os.O_RDONLY)
    pump = InputPump(descriptor, send, send_end)
    pump.start()
    async with asyncio.timeout(PATIENCE_S):
        await pump.run()
    os.close(descriptor)
    pauses = [later - sooner for sooner, later in itertools.pairwise(times[:4])]
    assert [pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True)] == [True] * 3
    assert pump._again_s == AGAIN_S
