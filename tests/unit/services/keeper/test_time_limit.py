import asyncio

from rankd.services.keeper.time_limit import TimeLimit

LONG = 3600.0


async def test_a_limit_is_over_once_unless_it_is_stopped_or_lengthened():
    over = asyncio.Event()
    limit = TimeLimit(0.0, over.set)
    limit.begin()
    limit.change(LONG)
    await asyncio.sleep(0)
    assert not over.is_set(), "it was lengthened before it was over"
    limit.change(0.0)
    await over.wait()
    limit.stop()


async def test_nothing_is_over_before_the_job_has_begun_or_after_it_has_ended():
    over = []
    limit = TimeLimit(None, lambda: over.append(1))
    limit.change(0.0)
    await asyncio.sleep(0)
    assert not over
    limit.change(None)
    limit.begin()
    limit.stop()
    limit.change(0.0)
    await asyncio.sleep(0)
    assert not over


async def test_a_changed_limit_counts_from_the_start_of_the_job():
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    limit = TimeLimit(LONG, over.set)
    limit.begin()
    began = loop.time()
    while loop.time() < began + 0.05:
        await asyncio.sleep(0.01)
    limit.change(0.05)
    await over.wait()
    assert loop.time() - began < LONG
