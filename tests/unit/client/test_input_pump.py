"""Input is sent once and in order, whatever part of it has to be sent again."""

import asyncio
import os
import random

import pytest
from watch import PATIENCE_S

from rankd.client.input_pump import InputPump
from rankd.wire.session import INPUT_WINDOW_BYTES


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
