"""``rankd submit --forecast``: the rank, the range of the start, and what limits each new job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rankd.cli.common.screen import print_line
from rankd.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.client.channel import Channel
    from rankd.wire.forecast_record import JobWhen

PATIENCE_S = 15.0
"""How long a forecast is awaited that knows the new jobs."""
PAUSE_S = 0.5
MOST = 10
"""The most jobs about which a forecast is printed."""


def forecasts(channel: Channel, ids: Sequence[int], patience_s: float = PATIENCE_S) -> list[JobWhen]:
    """What is foreseen for the first of these jobs. Waits for a while for a forecast that knows them."""
    from rankd.wire.encoding import encode
    from rankd.wire.forecast_record import JobWhen
    from rankd.wire.page import JobShow

    until, found = time.monotonic() + patience_s, list[JobWhen]()
    for job in ids[:MOST]:
        while True:
            answer = channel.request("job.when", encode(JobShow(id=job)), JobWhen)
            is_known = answer.state != "pending" or answer.early is not None or answer.unknown is not None
            if is_known or time.monotonic() >= until:
                break
            time.sleep(PAUSE_S)
        found.append(answer)
    return found


def print_forecasts(channel: Channel, ids: Sequence[int], *, as_json: bool = False, aside: bool = False) -> None:
    """Print them, as JSON one in each line. Without an answer, the jobs are submitted all the same.

    ``aside``: on standard error, since a program reads the ids.
    """
    from rankd.cli.look.when import told

    try:
        for answer in forecasts(channel, ids):
            if as_json:
                import msgspec

                print(msgspec.json.encode(answer).decode())
                continue
            for line in told(answer):
                print_line(line, error=aside)
    except Unavailable as error:
        print_line(f"rankd: the jobs were submitted, but there is no forecast: {error.message}", error=True)
