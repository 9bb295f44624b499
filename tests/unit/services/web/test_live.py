"""A tab holds the newest state of its view only, and one that takes nothing in gets a hint to load the page again."""

import asyncio

import pytest

from rankd.core.errors import Refused
from rankd.services.web import live
from rankd.services.web.live import Live


class Records:
    """Every look finds something newer."""

    def __init__(self):
        self.number = 0

    async def look(self, _look, _asker, _given):
        self.number += 1
        return (self.number, 0, 0, 0, 0)


@pytest.fixture
def made(monkeypatch):
    for name in ("EVERY_S", "LOOK_S", "SETTLE_S"):
        monkeypatch.setattr(live, name, 0.0)
    counted = {"n": 0}

    async def make():
        counted["n"] += 1
        return f"<p>{counted['n']}"

    return counted, make


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


def data(event):
    return int(event.decode().partition("<p>")[2])


async def test_what_a_slow_tab_missed_is_not_kept_for_it(made):
    counted, make = made
    tabs = Live(Records())
    running = asyncio.get_running_loop().create_task(tabs.run())
    stream = tabs.follow(("view",), make, "", "alice")
    assert (await anext(stream)).startswith(b"retry")
    before = data(await anext(stream))
    await until(lambda: counted["n"] > before + 100)
    assert data(await anext(stream)) > before + 99
    running.cancel()
    await stream.aclose()
    assert tabs.tabs == 0


async def test_a_tab_that_takes_nothing_in_is_told_to_load_the_page_again_and_ends(made, monkeypatch):
    monkeypatch.setattr(live, "SLOW_S", -1.0)
    tabs = Live(Records())
    running = asyncio.get_running_loop().create_task(tabs.run())
    kinds = [event.decode().partition("event: ")[2].partition("\n")[0] async for event in tabs.follow(
        ("view",), made[1], "", "alice")]  # fmt: skip
    assert kinds == ["", "view", "reload"]
    assert tabs.tabs == 0
    running.cancel()


async def test_the_streams_of_one_user_leave_room_for_those_of_others(made, monkeypatch):
    monkeypatch.setattr(live, "MOST_TABS_PER_USER", 2)
    monkeypatch.setattr(live, "MOST_VIEWS", 1)
    tabs = Live(Records())
    streams = [tabs.follow(("view",), made[1], "", "alice") for _ in range(2)]
    for stream in streams:
        await anext(stream)
    assert not tabs.has_room(("view",), "alice")
    assert tabs.has_room(("view",), "bob")
    assert not tabs.has_room(("another",), "bob")
    for stream in streams:
        await stream.aclose()
    assert tabs.has_room(("another",), "alice")


class Unchanged:
    """The same until somebody changes it."""

    number = 1

    async def look(self, _look, _asker, _given):
        return (self.number, 0, 0, 0, 0)


async def test_a_hint_shows_a_change_without_waiting_for_the_next_look(made, monkeypatch):
    monkeypatch.setattr(live, "LOOK_S", 1e6)
    counted, make = made
    tabs = Live(records := Unchanged())
    running = asyncio.get_running_loop().create_task(tabs.run())
    stream = tabs.follow(("view",), make, "", "alice")
    await anext(stream)
    assert data(await anext(stream)) == 1
    records.number = 2
    tabs.wake.set()
    assert data(await anext(stream)) == counted["n"] == 2
    running.cancel()
    await stream.aclose()


async def test_a_stream_whose_session_is_over_shows_no_more_and_the_tab_is_told(made):
    tabs, is_open = Live(Records()), [True]

    async def may_go_on():
        return is_open[0]

    running = asyncio.get_running_loop().create_task(tabs.run())
    stream = tabs.follow(("view",), made[1], "", "alice", may_go_on)
    await anext(stream)
    assert b"event: view" in await anext(stream)
    is_open[0] = False
    assert [event.decode().partition("event: ")[2].partition("\n")[0] async for event in stream] == ["reload"]
    running.cancel()


async def test_tabs_that_come_together_share_the_first_view_and_its_refusal():
    """After a restart of the page, hundreds of tabs come at once: one look for each of them would be too many."""
    tabs, made, may = Live(Unchanged()), [], asyncio.Event()

    async def make():
        made.append(1)
        await may.wait()
        if len(made) > 1:
            raise Refused("not_owner", "not yours")
        return "<p>1"

    for number in (1, 2):
        coming = [asyncio.get_running_loop().create_task(tabs.begin(("view",), make)) for _ in range(200)]
        await asyncio.sleep(0)
        may.set()
        found = await asyncio.gather(*coming, return_exceptions=True)
        assert len(made) == number
        assert {type(one) for one in found} == {Refused if number > 1 else type(None)}
        await asyncio.sleep(0)
