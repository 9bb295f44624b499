"""However many ask, the figures are made once in a while."""

import asyncio

from rankd.services.runtime.metric.scrape import Shared


class Making:
    """Counts how often it is made."""

    def __init__(self) -> None:
        self.now, self.made = 0.0, 0

    async def __call__(self) -> int:
        self.made += 1
        await asyncio.sleep(0)
        return self.made


async def test_those_who_ask_together_share_one_making():
    making = Making()
    shared = Shared(making, 5.0, clock=lambda: making.now)
    assert await asyncio.gather(*(shared.get() for _ in range(50))) == [1] * 50


async def test_it_is_made_again_when_it_is_too_old():
    making = Making()
    shared = Shared(making, 5.0, clock=lambda: making.now)
    found = []
    for now in (0.0, 4.9, 5.0, 9.9):
        making.now = now
        found.append(await shared.get())
    assert found == [1, 1, 2, 2]


async def test_a_failed_making_is_tried_again_by_the_next():
    outcomes = iter([ValueError("no"), 7])

    async def make() -> int:
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    shared = Shared(make, 5.0)
    assert [type(one) for one in await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)] == [
        ValueError,
        int,
    ]
