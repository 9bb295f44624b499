"""A real browser on a real site: Debian's Chromium, driven by Playwright.

Without Chromium these tests are skipped, with one line that says so. With ``RANKD_TEST_BROWSER=1``, as in CI, they
fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from system.conftest import Machine, shared_machine
from watch import PATIENCE_S

__all__ = ["shared_machine"]

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
CONFIG = Path(__file__).parents[2] / "config"
expect.set_options(timeout=PATIENCE_S * 1000)
WIDE, PHONE = {"width": 1100, "height": 700}, {"width": 390, "height": 780}


@pytest.fixture(scope="module")  # Playwright's event loop must have ended before this process runs other tests
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        message = "no Chromium at /usr/bin/chromium: apt-get install chromium"
        assert not os.environ.get("RANKD_TEST_BROWSER"), message
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(shared_machine: Machine, tmp_path_factory) -> Machine:
    """A site with jobs of two users that wait and run, of which 127.0.0.1 is a proxy that names users."""
    config = tmp_path_factory.mktemp("config")
    for file in CONFIG.iterdir():
        if file.is_file():
            text = file.read_text() + ('\n[web]\nproxies = ["127.0.0.1"]\n' if file.name == "rankd.toml" else "")
            (config / file.name).write_text(text)
    given = ("--no-local-agent", "--simulate", "2", "--device", "gpu:a100:2", "--config", str(config))
    shared_machine.start(*given, has_page=True)
    for user, name, cores in (("alice", "train", 6), ("bob", "render", 4), ("alice", "train", 8), ("bob", "mesh", 8)):
        submit(shared_machine, user, "-n", str(cores), "--name", name, "-t", "30", "--", "sleep", "1500")
    submit(shared_machine, "bob", "--array", "0-19", "-n", "2", "--name", "sweep", "-t", "10", "--", "sleep", "500")
    return shared_machine


def submit(site: Machine, user: str, *words: str) -> str:
    """Submit a job as this user; returns its id."""
    return site.rankd("submit", "--parsable", "--as", user, *words).strip().split(";")[0]


def base_of(site: Machine) -> str:
    return link_of(site).partition("/sign-in")[0]


def link_of(site: Machine) -> str:
    return site.rankd("web", "--link", "--dir", str(site.directory)).strip()


class Tab:
    """A tab of one user, who signs in at the proxy. Errors of scripts and refusals of the policy fail the test."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        context.set_default_timeout(PATIENCE_S * 1000)
        self.page: Page = context.new_page()
        self.base = base
        self.errors = list[str]()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("dialog", self._on_dialog)
        self.may_ask = False

    def _note(self, message) -> None:
        if message.type == "error" and "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def _on_dialog(self, dialog) -> None:
        if dialog.type == "confirm" and self.may_ask:
            dialog.accept()
        else:
            self.errors.append(f"a dialog: {dialog.message}")
            dialog.dismiss()

    def open(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def until_live(self) -> None:
        self.page.wait_for_selector('#link[data-state="on"]')


@pytest.fixture
def tab(browser, site, request) -> Iterator[Tab]:
    """A tab of alice's; ``@pytest.mark.parametrize("tab", [{...}], indirect=True)`` gives other options."""
    given = {"viewport": WIDE, "color_scheme": "light", **getattr(request, "param", {})}
    user = given.pop("user", "alice")
    context = browser.new_context(extra_http_headers={"X-Remote-User": user}, **given)
    tab = Tab(context, base_of(site))
    yield tab
    context.close()
    assert tab.errors == []
