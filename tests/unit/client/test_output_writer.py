"""Output is written in order, and a reader that has gone is told once."""

import asyncio
import os

from watch import PATIENCE_S

from rankd.client.output_writer import LONGEST_LINE, Labels, OutputWriter


async def test_parts_are_written_in_order_and_confirmed_when_they_are_written():
    read, write = os.pipe()
    confirmed = []
    writer = OutputWriter(write, confirmed.append)
    for number in range(3):
        writer.write(b"%d" % number * 5_000, lambda number=number: confirmed.append(number))
    async with asyncio.timeout(PATIENCE_S):
        await writer.close()
    await asyncio.sleep(0)
    assert os.read(read, 20_000) == b"0" * 5_000 + b"1" * 5_000 + b"2" * 5_000
    assert confirmed == [0, 1, 2]
    os.close(read)
    os.close(write)


async def test_a_reader_that_has_gone_is_reported():
    read, write = os.pipe()
    os.close(read)
    gone = asyncio.Event()
    writer = OutputWriter(write, lambda _error: gone.set())
    writer.write(b"x", lambda: None)
    async with asyncio.timeout(PATIENCE_S):
        await gone.wait()
    os.close(write)


def test_a_line_without_an_end_is_not_kept_for_ever():
    labels = Labels("0: ")
    assert labels.labelled(b"x" * (LONGEST_LINE + 1)).startswith(b"0: x")
    assert labels.rest() == b""
    assert labels.labelled(b"half") == b""
    assert labels.rest() == b"0: half\n"
