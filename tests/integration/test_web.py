"""The service of the page over a real broker, an intake and a database: changes, streams, and what is refused.

Signing in, cookies, names of hosts and the policy of the browser are in ``tests/system/test_page.py``, with processes
and a broker that has accounts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import builder
import pytest
from browserless import TOKEN, Stream, Visitor
from integration.conftest import Broker
from integration.stage import connected, ready, rows, running, write_config
from watch import PATIENCE_S, comes

from rankd.bus.connection import Bus
from rankd.client.asker import process_user
from rankd.identity.credentials import write_private
from rankd.identity.site import Role, open_site, readmit, revoke
from rankd.services.intake.service import IntakeOptions
from rankd.services.intake.service import run as run_intake
from rankd.services.prioritizer.service import PrioritizerOptions
from rankd.services.prioritizer.service import run as run_prioritizer
from rankd.services.web import admitted, live
from rankd.services.web.listener import Address
from rankd.services.web.service import WebOptions
from rankd.services.web.service import run as run_web
from rankd.services.web.sign_in_link import read_link
from rankd.wire.subject import WEB


class Site:
    """A broker, an intake and three pages. They run on a loop in a thread.

    The second one only shows; the third has no database, so it asks the intake.
    """

    def __init__(self, directory, web: str = 'proxies = ["127.0.0.1"]\n') -> None:
        self.directory, self._web = directory, web
        self.database = directory / "rankd.db"
        self.state, self.wall = directory / "not" / "there" / "yet", directory / "wall"
        self.far = directory / "far"
        self._broker = Broker(directory / "broker")
        self._is_up, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._problem = None

    def start(self) -> None:
        builder.new_database(self.directory)
        self._broker.start()
        self._thread.start()
        assert self._is_up.wait(PATIENCE_S)
        assert self._problem is None, self._problem

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._broker.kill()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with AsyncExitStack() as stack:
                self.client = await stack.enter_async_context(connected(self._broker.url))
                bus = await stack.enter_async_context(Bus(self._broker.url, "probe"))
                await stack.enter_async_context(running(run_intake, self._intake()))
                await ready(bus, "intake")
                for state, more in ((self.state, {}), (self.wall, {"is_read_only": True}), (self.far, {"db": None})):
                    await stack.enter_async_context(running(run_web, self._page(state, **more)))
                    await ready(bus, WEB)
                    while read_link(state) is None:
                        await asyncio.sleep(0.01)
                self._is_up.set()
                await self._stop.wait()
        except BaseException as error:  # shown by the test that waits
            self._problem = error
            raise
        finally:
            self._is_up.set()

    def _intake(self) -> IntakeOptions:
        config = write_config(self.directory / "config")
        with (config / "rankd.toml").open("a") as file:
            file.write(f"[web]\n{self._web}")
        creds = self._credentials("services", Role.SERVICES, "")
        self._credentials("admin", Role.ADMIN, process_user())  # the owner, for whom the page may ask
        return IntakeOptions(nats=self._broker.url, creds=creds, db=str(self.database), config=config)

    def _credentials(self, file: str, role: Role, name: str):
        (auth := self.directory / "auth").mkdir(exist_ok=True)
        write_private(auth / f"{file}.creds", open_site(auth).credentials(role, name, time.time()).text())
        return auth / f"{file}.creds"

    def _page(self, state, **more: object) -> WebOptions:
        creds = self._credentials("gateway", Role.GATEWAY, WEB)
        return WebOptions(**{
            "nats": self._broker.url, "gateway_creds": creds, "db": str(self.database), "state": state,
            "owner": process_user(), "address": Address(host="127.0.0.1", port=0), **more,
        })  # fmt: skip

    def base(self, state) -> str:
        return read_link(state).partition("/sign-in")[0]

    def do(self, coroutine):
        """What a coroutine returns, run beside the services."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def revoke(self, user: str) -> None:
        revoke(self.directory / "auth", Role.USER, user, time.time())

    def readmit(self, user: str) -> None:
        readmit(self.directory / "auth", Role.USER, user)

    def submit(self, user: str) -> int:
        return self.do(self.client.submit(user, held=True))

    @contextmanager
    def another_page(self, state) -> Iterator[str]:
        """A page of its own, for some time; yields where it is."""
        started, end = threading.Event(), asyncio.Event()

        async def serve() -> None:
            async with running(run_web, self._page(state)):
                while read_link(state) is None:
                    await asyncio.sleep(0.01)
                started.set()
                await end.wait()

        serving = asyncio.run_coroutine_threadsafe(serve(), self._loop)
        try:
            assert started.wait(PATIENCE_S)
            yield self.base(state)
        finally:
            self._loop.call_soon_threadsafe(end.set)
            serving.result(PATIENCE_S)

    def rank(self) -> None:
        """Let a prioritizer make a full generation, and end."""

        async def once() -> None:
            options = PrioritizerOptions(
                nats=self._broker.url, creds=self.directory / "auth" / "services.creds", db=str(self.database),
                config=self.directory / "config",
            )  # fmt: skip
            before = self._generations()
            async with running(run_prioritizer, options):
                while self._generations() == before:
                    await asyncio.sleep(0.02)

        self.do(once())

    def _generations(self) -> int:
        return rows(self.database, "SELECT count(*) FROM generations WHERE kind = 'full'")[0][0]

    @contextmanager
    def privacy(self, jobs: str) -> Iterator[None]:
        """A configuration with this ``[privacy] jobs`` is in force."""
        file = self.directory / "config" / "rankd.toml"
        before = file.read_text()
        try:
            file.write_text(f'{before}[privacy]\njobs = "{jobs}"\n')
            assert self.do(self.client.ask("rankd.v1.admin.root.config.reload", {})).status is None
            yield
        finally:
            file.write_text(before)
            assert self.do(self.client.ask("rankd.v1.admin.root.config.reload", {})).status is None

    def held(self, job: int) -> bool:
        return bool(rows(self.database, "SELECT held FROM jobs WHERE id = ?", job)[0][0])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("page"))
    site.start()
    yield site
    site.end()


@pytest.fixture
def alice(site) -> Visitor:
    return Visitor(site.base(site.state), X_Remote_User="alice")


def test_a_state_directory_that_is_not_there_is_made_for_its_owner_only(site):
    assert stat.S_IMODE(site.state.stat().st_mode) == 0o700
    for file in ("web.key", "web.link", "web.port"):
        found = (site.state / file).stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.getuid()), file


def test_a_change_without_the_token_of_the_session_or_from_another_site_changes_nothing(site, alice):
    job = site.submit("alice")
    token, path = alice.token(f"/job/{job}"), f"/job/{job}/release"
    of_bob = Visitor(alice.base, X_Remote_User="bob").token(f"/job/{job}")
    for form, origin in (
        ({}, alice.base), ({"token": "x"}, alice.base), ({"token": of_bob}, alice.base),
        ({"token": token}, "http://evil.example"), ({"token": token}, "null"), ({"token": token}, ""),
    ):  # fmt: skip
        assert alice.ask(path, form, Origin=origin).status == 403, (form, origin)
    assert alice.ask(path).status == 405  # a link changes nothing
    assert site.held(job)
    assert alice.ask(path, {"token": token}).status == 303
    assert not site.held(job)


def test_a_token_is_of_one_session_and_signs_nobody_in(site):
    """Also not the same user elsewhere: a proxy's visitor and the holder of a cookie have different tokens."""
    owner = Visitor(site.base(site.state))
    owner.sign_in(read_link(site.state))
    behind = Visitor(owner.base, X_Remote_User=process_user())
    job = site.submit(process_user())
    assert behind.ask(f"/job/{job}/release", {"token": owner.token()}).status == 403
    assert Visitor(owner.base).ask(f"/job/{job}/release", {"token": owner.token()}).status == 401
    assert owner.ask(f"/job/{job}/release", {"token": owner.token()}).status == 303


def test_a_restart_forgets_no_session_and_no_sign_out(site):
    state = site.directory / "restarted"
    with site.another_page(state) as base:
        stays, left = Visitor(base), Visitor(base)
        for visitor in (stays, left):
            visitor.sign_in(read_link(state))
        cookie = left.cookie
        assert left.ask("/sign-out", {"token": left.token()}).status == 200
        left.cookie = cookie  # as somebody would who has copied it
    (state / "web.link").unlink()
    with site.another_page(state) as again:
        assert again == base
        assert [visitor.ask("/queue").status for visitor in (stays, left)] == [200, 401]
    (state / "web.link").unlink()
    (state / "web.ended").write_text("{")
    with site.another_page(state):
        assert stays.ask("/queue").status == 401, "nobody knows any more who has signed out"


def test_another_users_job_is_refused_and_the_event_of_an_own_one_names_the_page(site, alice):
    mine, other = site.submit("alice"), site.submit("bob")
    token = alice.token(f"/job/{mine}")
    for action in ("release", "cancel"):
        answer = alice.ask(f"/job/{other}/{action}", {"token": token})
        assert (answer.status, "belongs to" in answer.text) == (403, True), (action, answer.text)
    assert alice.ask(f"/job/{other}/update", {"token": token, "name": "taken"}).status == 403
    assert rows(site.database, "SELECT held, state, name FROM jobs WHERE id = ?", other) == [(1, "pending", "true")]
    assert alice.ask(f"/job/{mine}/cancel", {"token": token}).status == 303
    query = "SELECT actor, detail FROM job_events WHERE job_id = ? AND event = 'cancel'"
    [(actor, detail)] = rows(site.database, query, mine)
    assert (actor, json.loads(detail)["via"]) == ("alice", "web")


def test_a_stream_goes_on_behind_the_event_that_the_tab_has_had(site, alice):
    job = site.submit("alice")
    with Stream(alice, f"/job/{job}") as stream:
        had = stream.next()
    assert had["event"] == "view"
    assert "held by alice" in had["data"]
    with Stream(alice, f"/job/{job}", had["id"]) as again:  # as a browser does after a cut
        alice.ask(f"/job/{job}/release", {"token": alice.token(f"/job/{job}")})
        found = again.next()  # the first one that it gets shows the change
    assert found["id"] != had["id"]
    assert "held by alice" not in found["data"]


def test_who_may_not_see_a_job_gets_no_stream_of_it(alice):
    for path, status in (("/live/job/999999", 404), ("/live/job/x", 400), ("/live/nothing", 404)):
        answer = alice.ask(path)
        assert (answer.status, 'role="alert"' in answer.text) == (status, True), path
    assert Visitor(alice.base).ask("/live/queue").status == 401


def test_who_is_revoked_sees_nothing_more_and_open_tabs_are_told(site, alice, monkeypatch):
    """The page reads the database itself: without asking the intake again, a session would go on for 12 hours."""
    monkeypatch.setattr(admitted, "AGAIN_S", 0.0)
    monkeypatch.setattr(live, "BEAT_S", 0.1)
    job = site.submit("alice")
    with Stream(alice, "/queue") as stream:
        assert stream.next()["event"] == "view"
        site.revoke("alice")
        try:
            while stream.next()["event"] != "reload":
                pass
            for path in ("/queue", f"/job/{job}", "/whatif", "/live/queue", "/live/log/1"):
                answer = alice.ask(path)
                assert (answer.status, "has revoked the access of" in answer.text) == (403, True), path
            assert Visitor(alice.base, X_Remote_User="bob").ask("/queue").status == 200
        finally:
            site.readmit("alice")
    comes(lambda: alice.ask("/queue").status == 200)


def test_no_path_leads_out_of_the_pages_own_files(alice):
    for path in (
        "/static/../service.py", "/static/%2e%2e/service.py", "/static/..%2fservice.py", "/static//etc/passwd",
        "/static/vendor/../../service.py", "/live/log/..%2f..%2fetc%2fpasswd", "/job/%2e%2e", "/live/log/1/../../x",
    ):  # fmt: skip
        answer = alice.ask(path)
        assert answer.status in (400, 404), path
        assert "root:" not in answer.text
        assert "def run(" not in answer.text


def test_a_page_on_the_wall_shows_without_a_name_and_changes_nothing(site):
    job = site.submit("alice")
    wall = Visitor(site.base(site.wall))
    for path in ("/queue", f"/job/{job}", "/nodes", "/me", "/whatif"):
        answer = wall.ask(path)
        assert (answer.status, 'method="post"' in answer.text) == (200, False), path
    for visitor in (wall, Visitor(wall.base, X_Remote_User="alice")):
        answer = visitor.ask(f"/job/{job}/release", {"token": "x"})
        assert (answer.status, "read_only" in answer.text) == (403, True)
    assert site.held(job)


def test_jobs_without_a_rank_are_listed_and_filtered_by_the_address(site, alice):
    mine, other = site.submit("alice"), site.submit("bob")
    page = alice.ask("/queue?state=waiting").text
    assert "Without a rank" in page
    assert [f'href="/job/{job}"' in page for job in (mine, other)] == [True, True]
    for query, found in (
        ("user=bob", [False, True]),
        (f"text={mine}", [True, False]),
        ("queue=root.small", [False] * 2),
    ):
        page = alice.ask(f"/queue?{query}").text
        assert [f'href="/job/{job}"' in page for job in (mine, other)] == found, query
    assert alice.ask("/queue?state=nothing").status == 400


def shown(visitor: Visitor, path: str) -> str:
    """The content of a page, without what belongs to one session, and since when this page has looked at ranks."""
    answer = visitor.ask(path, HX_Request="true")
    assert answer.status == 200, (path, answer)
    return re.sub(r"This page has looked since [^.]*", "", TOKEN.sub("", answer.text))


def same(pages: list[Visitor], path: str) -> str:
    """What these pages show in the same second; it is the same."""
    found = ["", "other"]

    def are_alike() -> bool:
        found[:] = [shown(page, path) for page in pages]
        return found[0] == found[1]

    comes(are_alike)
    return found[0]


@pytest.fixture(scope="module")
def ranked(site) -> dict[str, int]:
    """Jobs with ranks, and one that is held."""
    held = site.submit("alice")
    jobs = {user: site.do(site.client.submit(user, name=f"of-{user}", array="0-3")) for user in ("alice", "bob")}
    site.rank()
    return {**jobs, "held": held}


def pages_of(site: Site, user: str) -> list[Visitor]:
    """The page with a database, and the one without."""
    return [Visitor(site.base(state), X_Remote_User=user) for state in (site.state, site.far)]


def test_a_page_without_a_database_shows_the_same_numbers(site, ranked):
    pages = pages_of(site, "alice")
    queue = same(pages, "/queue")
    assert re.search(r"[2-9] jobs have a place in the ranking", re.sub(r"<[^>]*>", "", queue))
    assert all(f'href="/job/{job}"' in queue for job in ranked.values())
    for path in (
        "/queue?user=bob&state=waiting",
        "/queue?state=ended",
        "/queues",
        "/shares",
        "/nodes",
        "/me",
        "/services",
    ):
        same(pages, path)
    for name in ("alice", "held", "bob"):
        assert f"Job {ranked[name]}" in same(pages, f"/job/{ranked[name]}")
        same(pages, f"/why/{ranked[name]}")
    same(pages, f"/job/{ranked['alice']}_2")
    assert "weight.age" in same(pages, "/whatif?weight.age=5000")
    for page in pages:
        codes = [page.ask(path).status for path in ("/job/999999", "/job/x", "/queue?state=nothing", "/queue?after=x")]
        assert codes == [404, 400, 400, 400]
    figures = pages[1].ask("/metrics").text
    assert "rankd_records_readable 1.0" in figures
    assert "rankd_jobs{" in figures


def looked(answer: dict[str, str]) -> bytes:
    """What the page gets to show."""
    return zlib.decompress(base64.b64decode(answer["data"]))


def test_what_privacy_hides_is_not_sent_to_a_page_without_a_database(site, ranked):
    with site.privacy("own"):
        pages = pages_of(site, "bob")
        comes(lambda: "of-alice" not in shown(pages[1], "/queue") + shown(pages[0], "/queue"))
        queue = same(pages, "/queue")
        assert [f'href="/job/{ranked[name]}"' in queue for name in ("alice", "bob", "held")] == [False, True, False]
        for path in ("/shares", "/nodes", "/queues", "/me"):
            assert "alice" not in same(pages, path)
        for path in (f"/job/{ranked['alice']}", f"/why/{ranked['alice']}", f"/live/job/{ranked['alice']}"):
            assert [page.ask(path).status for page in pages] == [403, 403], path
        assert b"of-alice" not in looked(site.do(site.client.do("page.look", {"look": "queue"}, "bob")).body)
    services = {"look": "services"}
    seen = [
        looked(site.do(site.client.do("page.look", services, "bob")).body),
        looked(site.do(site.client.ask("rankd.v1.admin.root.page.look", services | {"nobody": True})).body),
        looked(site.do(site.client.ask("rankd.v1.admin.root.page.look", services)).body),
    ]
    assert [str(site.directory / "config").encode() in one for one in seen] == [False, False, True]
    refused = site.do(site.client.do("page.look", {"look": "settings"}, "bob"))
    assert (refused.status, refused.body["code"]) == (403, "admins_only")


def test_a_tab_of_a_page_without_a_database_follows(site, ranked):
    alice = pages_of(site, "alice")[1]
    with Stream(alice, f"/job/{ranked['held']}") as stream:
        assert "held by alice" in stream.next()["data"]
        token = alice.token(f"/job/{ranked['held']}")
        assert alice.ask(f"/job/{ranked['held']}/release", {"token": token}).status == 303
        while "held by alice" in stream.next()["data"]:
            pass
    assert Visitor(alice.base).ask("/queue").status == 401
