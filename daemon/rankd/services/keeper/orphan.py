"""Ending the jobs of a keeper whose agent has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rankd.core.errors import Unavailable
from rankd.services.keeper.connection import PATIENCE_S, first_line, hello_of, pid_of, reach, silent
from rankd.services.keeper.message import LONGEST_LINE, EndJob, Happened, line, read_tell

log = logging.getLogger("rankd.agent")

END_S = 75.0
"""A keeper reports an unkillable process as ended after 60 s. One that takes longer is stopped, or hangs."""


async def end_kept(state: Path, grace_s: float, patience_s: float = PATIENCE_S, end_s: float = END_S) -> None:
    """End the jobs of a keeper without an agent; the next agent reports them as stopped. No keeper, no effect.

    A keeper is left alone if it does not answer within ``patience_s``, or does not end the jobs within the grace time
    plus ``end_s``. It ends the jobs once it continues.
    """
    try:
        connection = reach(state)
    except Unavailable as error:
        log.error("%s; its jobs are not ended", error.message)  # noqa: TRY400
        return
    if connection is None:
        return
    pid = pid_of(connection)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LONGEST_LINE)
    said = await first_line(reader, patience_s)
    left = _allocations(state) if said is None else set(hello_of(said).running) if said else set()
    for allocation in left:
        writer.write(line(EndJob(allocation=allocation, cause="agent_stopped", grace_s=grace_s)))
    if said is None:
        log.error("%s; it is left alone, and ends its jobs when it continues", silent(state, pid).message)
    else:
        await _until_ended(reader, left, grace_s + end_s)
    if said is not None and left:
        message = "keeper %s has not ended the jobs of allocations %s within %.0f s; they are left to it"
        log.error(message, pid, ", ".join(map(str, sorted(left)[:10])), grace_s + end_s)
    writer.close()


async def _until_ended(reader: asyncio.StreamReader, left: set[int], timeout_s: float) -> None:
    """Remove ended allocations from ``left`` until it is empty, the keeper has ended, or the time is over."""
    with suppress(ConnectionError):  # the keeper has ended before it read every request
        try:
            async with asyncio.timeout(timeout_s):
                while left and (said := await reader.readline()):
                    told = read_tell(said)
                    if isinstance(told, Happened) and told.report.kind == "ended":
                        left.discard(told.report.allocation)
        except TimeoutError:
            return
    left.clear()


def _allocations(state: Path) -> set[int]:
    """The allocations that may run. A keeper ignores those that it does not hold."""
    names: Iterable[Path] = (state / "allocations").iterdir()
    return {int(path.name) for path in names if path.name.isdigit()}
