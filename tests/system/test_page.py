"""The page over a running site: who gets in, what a browser may load, and that nothing of anybody else's changes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from browserless import Stream, Visitor
from promtool import promtool
from system.conftest import RANKD, Machine
from watch import PATIENCE_S, comes

HOSTILE = "<script>alert(1)</script>\"'>&\u202e\x1b[31m"
CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def site(shared_machine: Machine, tmp_path_factory) -> Machine:
    """A site of which 127.0.0.1 is a proxy that names users."""
    config = tmp_path_factory.mktemp("config")
    for file in CONFIG.iterdir():
        if file.is_file():
            text = file.read_text() + ('\n[web]\nproxies = ["127.0.0.1"]\n' if file.name == "rankd.toml" else "")
            (config / file.name).write_text(text)
    shared_machine.said = shared_machine.start("--config", str(config), "--metrics", "0", has_page=True)
    shared_machine.rankd("submit", "--as", "alice", "--hold", "--name", HOSTILE, "--", "true")
    shared_machine.rankd("submit", "--as", "bob", "--hold", "--name", "of-bob", "--", "true")
    return shared_machine


def link_of(site: Machine) -> str:
    return site.rankd("web", "--link", "--dir", str(site.directory)).strip()


def base_of(site: Machine) -> str:
    return link_of(site).partition("/sign-in")[0]


@pytest.fixture
def alice(site) -> Visitor:
    return Visitor(base_of(site), X_Remote_User="alice")


def test_the_link_signs_its_owner_in_once_with_a_cookie_that_scripts_cannot_read(site):
    visitor, link = Visitor(base_of(site)), link_of(site)
    assert visitor.ask("/queue").status == 401
    answer = visitor.sign_in(link)
    assert answer.status == 200
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part.lower() in answer.headers["set-cookie"].lower()
    assert visitor.ask("/queue").status == 200
    assert Visitor(visitor.base).sign_in(link).status == 403
    assert link_of(site) != link
    for file in ("web.link", "web.key", "web.creds", "web-gateway.creds"):
        assert stat.S_IMODE((site.directory / "auth" / file).stat().st_mode) == 0o600, file


def test_a_session_that_was_signed_out_counts_no_more(site):
    visitor = Visitor(base_of(site))
    visitor.sign_in(link_of(site))
    token = visitor.token()
    stolen = Visitor(visitor.base)
    stolen.cookie = visitor.cookie
    assert stolen.ask("/queue").status == 200
    assert visitor.ask("/sign-out", {"token": token}).status == 200
    assert stolen.ask("/queue").status == 401


def test_every_answer_forbids_scripts_and_frames_of_others(alice):
    for path in ("/queue", "/sign-in?token=x", "/nothing", "/static/page.js"):
        headers = alice.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    page = alice.ask("/queue").text
    assert "<script>" not in page
    assert not re.search(r"\sstyle=|\son\w+=", page)
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page)


def test_a_name_that_another_site_points_here_gets_nothing(alice):
    answer = alice.ask("/queue", Host="evil.example")
    assert answer.status == 421
    assert "evil.example" in answer.text
    assert "table" not in answer.text


def test_a_silent_or_huge_request_ends(alice):
    host, port = alice.place.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert connection.recv(100) == b""  # closed by the page, after some seconds
    assert alice.ask("/sign-out", {"token": "x" * 100_000}).status == 413
    assert alice.ask("/queue?" + "a=1&" * 50).status == 400


def test_no_other_gateway_and_nobody_else_can_be_asked_for_with_the_pages_credentials(site):
    """With what a break-in to the page would find: only its verbs, and never another subject."""
    from rankd.bus.connection import Bus
    from rankd.identity.credentials import source_of

    async def refused(subject: str) -> str:
        credentials = source_of(site.directory / "auth" / "web-gateway.creds")
        async with Bus(site.up["nats"], "thief", credentials=credentials) as bus:
            try:
                reply = await bus.client.request(subject, b"{}", timeout=3)
            except Exception as error:  # noqa: BLE001 - the broker lets nothing through, in any way
                return type(error).__name__
            return json.loads(reply.data).get("code", "answered")

    import asyncio

    for subject in (
        "rankd.v1.gateway.web.alice.job.attach",
        "rankd.v1.user.alice.job.cancel", "rankd.v1.admin.root.job.cancel", "rankd.v1.gateway.head.alice.job.cancel",
        "rankd.v1.gateway.web.alice.job.submit", "rankd.v1.gateway.web.alice.node.drain",
        "rankd.v1.gateway.web.alice.config.reload",
    ):  # fmt: skip
        assert asyncio.run(refused(subject)) in ("NoRespondersError", "TimeoutError"), subject
    assert asyncio.run(refused("rankd.v1.gateway.web.root.job.hold")) != "unknown_gateway"  # the owner


def test_a_page_without_a_database_reaches_what_it_needs_at_a_broker_with_accounts(site, alice, tmp_path):
    """Only with its own two files of credentials: nothing else of the site is there."""
    state, auth = tmp_path / "far", site.directory / "auth"
    words = ["web", "--nats", site.up["nats"], "--state", str(state)]
    words += ["--creds", str(auth / "web.creds"), "--gateway-creds", str(auth / "web-gateway.creds")]
    owner = os.environ | {"RANKD_USER": "carol"}
    process = subprocess.Popen([*RANKD, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=owner)
    try:
        for line in process.stderr:
            if "ready: " in line:
                break
        link = (state / "web.link").read_text().strip()
        far = Visitor(link.partition("/sign-in")[0], X_Remote_User="alice")
        comes(lambda: far.ask("/queue").status == 200)  # it knows its proxies
        for path in ("/queue", "/job/1", "/queues", "/shares", "/nodes", "/whatif", "/me", "/services"):
            assert far.ask(path).status == 200, path
        job = 'href="/job/1"'
        assert job in alice.ask("/me").text
        assert job in far.ask("/me").text
        assert job not in Visitor(far.base, X_Remote_User="bob").ask("/me").text
        with Stream(far, "/services") as stream:
            assert "prioritizer" in stream.next()["data"]
        carol = Visitor(far.base)
        carol.sign_in(link)
        assert "carol" in carol.ask("/me").text, "the link signs in another user"
        comes(lambda: series(far.ask("/metrics").text).get('rankd_user_pending_jobs{user="alice"}') == 1)
        assert series(far.ask("/metrics").text)['rankd_service_healthy{service="scheduler"}'] == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_up_exports_the_site_and_each_of_its_services(site):
    """One scrape has the records and what every service says of itself."""
    metrics = Visitor(re.search(r"metrics: (http://127\.0\.0\.1:[0-9]+)/metrics", site.said)[1])
    found = series(metrics.ask("/metrics").text)
    assert found['rankd_jobs{queue="root.default",reason="held",state="pending"}'] == 2
    assert found['rankd_user_pending_jobs{user="alice"}'] == 1
    assert found['rankd_nodes{state="up"}'] == 1
    assert found['rankd_submitted_jobs_total{code="ok"}'] == 2
    assert found['rankd_requests_total{code="ok",verb="job.submit"}'] == 2
    for service in ("up", "intake", "prioritizer", "scheduler", "forecaster", "gateway"):
        assert found[f'rankd_service_healthy{{service="{service}"}}'] == 1, service
        assert found[f'process_resident_memory_bytes{{service="{service}"}}'] > 0, service
    assert found["rankd_cycles_total"] >= 1
    assert found['rankd_pass_duration_seconds_count{kind="full",phase="rank"}'] >= 1
    assert found['rankd_role_held{role="intake"}'] == 1
    assert found['rankd_stream_leader{stream="RANKD_EVENTS"}'] == 1
    assert not [name for name in found if HOSTILE[:8] in name or "of-bob" in name], "names of jobs are no labels"


def test_promtool_finds_no_fault_in_what_a_site_exports(site):
    metrics = Visitor(re.search(r"metrics: (http://127\.0\.0\.1:[0-9]+)/metrics", site.said)[1])
    promtool("check", "metrics", given=metrics.ask("/metrics").text)


def test_the_page_serves_metrics_to_who_is_signed_in_and_not_through_a_proxy(alice):
    """This machine is a proxy of this site, so what comes from it may be anybody's."""
    found = alice.ask("/metrics", Accept="application/openmetrics-text;version=1.0.0")
    assert found.status == 200
    assert found.headers["content-type"].startswith("application/openmetrics-text")
    assert found.text.endswith("# EOF\n")
    assert 'rankd_service_healthy{service="scheduler"} 1.0' in found.text, "the page may ask the services"
    assert "rankd_web_tabs 0.0" in found.text
    refused = Visitor(alice.base).ask("/metrics")
    assert refused.status == 403
    assert "[web] metrics" in refused.text
    assert "rankd_jobs" not in refused.text


def series(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def read_to_end(visitor: Visitor, path: str) -> str:
    """What a tab shows last of a log."""
    shown = ""
    with Stream(visitor, path) as stream:
        while (found := stream.next())["event"] != "end":
            shown = found["data"]
    return shown


def test_the_user_of_a_job_follows_what_it_writes_and_nobody_else_does(site, alice):
    wrote = r"printf '<b>bold\377\033[31m\n'; echo done >&2"
    job = site.rankd("submit", "--parsable", "--as", "alice", "--", "sh", "-c", wrote).strip()
    shown = read_to_end(alice, f"/log/{job}")  # also before it has started
    assert "&lt;b&gt;bold\ufffd\n" in shown
    assert "The job has ended." in shown
    assert "done\n" in read_to_end(alice, f"/log/{job}?stream=stderr")
    with Stream(Visitor(alice.base, X_Remote_User="bob"), f"/log/{job}") as stream:
        answer = stream.next()["data"]
        assert ("belongs to" in answer, "bold" in answer) == (True, False)
        assert stream.next()["event"] == "end"
    assert Visitor(alice.base).ask(f"/live/log/{job}").status == 401
    assert alice.ask(f"/live/log/{job}?stream=x").status == 400


def test_the_steps_of_a_job_are_on_its_page(site, alice):
    job = site.rankd("submit", "--as", "alice", "--parsable", "--", "sleep", "1000").strip()
    comes(lambda: site.rows("SELECT 1 FROM job WHERE id = ? AND state = 'running'", job))
    site.rankd("shell", "--as", "alice", job, "--", "sh", "-c", "exit 3", status=3)

    def is_shown() -> bool:
        with Stream(alice, f"/job/{job}") as stream:
            page = stream.next()["data"]
        return "Steps</h2>" in page and ">exit 3<" in page and "sh -c &#39;exit 3&#39;" in page

    comes(is_shown)
    site.rankd("cancel", "--as", "alice", job)
