"""The page in a real browser: signing in, live changes, each page, each action and its refusal, keyboard, phone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser.conftest import PHONE, WIDE, base_of, link_of, submit
from playwright.sync_api import expect
from watch import PATIENCE_S

AXE = (Path(__file__).parents[1] / "vendor" / "axe.min.js").read_text()
PICTURES = os.environ.get("RANKD_PICTURES")
PAGES = {
    "queue": "/queue", "job": "/job/1", "array": "/job/5", "queues": "/queues", "shares": "/shares", "nodes": "/nodes",
    "whatif": "/whatif", "me": "/me", "services": "/services",
}  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'>&\u202e\x1b[31m{{ 7 * 7 }}"
PATIENCE = {"timeout": PATIENCE_S * 1000}
LIGHT, DARK = {"viewport": WIDE, "color_scheme": "light"}, {"viewport": PHONE, "color_scheme": "dark"}


def findings(page) -> list[str]:
    """What people with a screen reader or a keyboard can't use here: serious and critical findings."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['target']} {node['html'][:120]}" for one in serious for node in one["nodes"]]


@pytest.mark.parametrize("tab", [LIGHT, DARK], indirect=True, ids=["wide-light", "phone-dark"])
def test_every_page_is_whole_and_usable(tab, request):
    is_wide = "wide" in request.node.name
    for name, path in PAGES.items():
        page = tab.open(path)
        expect(page.locator("main h1, main h2").first).to_be_visible()
        if name != "whatif":
            tab.until_live()
        assert findings(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} is too wide"
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/{name}{'' if is_wide else '-phone'}.png")


def test_the_link_signs_in_and_a_job_that_comes_over_nats_appears(browser, site):
    context = browser.new_context()
    page = context.new_page()
    link, base = link_of(site), base_of(site)
    page.goto(f"{base}/queue")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible(**PATIENCE)
    page.goto(link)
    page.wait_for_url("**/queue", **PATIENCE)
    expect(page.locator('#link[data-state="on"]')).to_be_visible(**PATIENCE)
    creds = str(site.credentials("user", "carol"))
    site.rankd(
        "submit", "--nats", site.up["nats"], "--creds", creds, "--name", "over-nats", "-n", "8", "--", "sleep", "9"
    )
    expect(page.get_by_text("over-nats")).to_be_visible(**PATIENCE)
    context.close()


def test_an_open_tab_goes_on_after_a_restart_of_the_page(tab, site):
    tab.open("/queue")
    tab.until_live()
    site.kill("web")
    tab.page.wait_for_selector('#link[data-state="lost"]')
    submit(site, "bob", "-n", "8", "--name", "after-restart", "--", "sleep", "9")
    expect(tab.page.get_by_text("after-restart")).to_be_visible(**PATIENCE)
    tab.until_live()


def test_own_jobs_are_held_released_changed_and_cancelled(tab, site):
    job = submit(site, "alice", "-n", "8", "--name", "mine", "--", "true")
    page = tab.open(f"/job/{job}")
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_text("Held: it does not start")).to_be_visible()
    expect(page.locator(".tag", has_text="held by alice")).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_text("Released.")).to_be_visible()
    page.get_by_label("Name").fill("renamed")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("renamed")
    tab.may_ask = True
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".state.cancelled").first).to_be_visible()
    via = site.rows("SELECT detail FROM job_event WHERE job_id = ? AND event = 'cancel'", int(job))
    assert via, "the cancellation is recorded"
    page.get_by_role("button", name="Submit again").click()
    expect(page.get_by_text("this is the new job")).to_be_visible()


@pytest.mark.parametrize("action", ["Hold", "Cancel", "Change"])
def test_others_jobs_are_refused_as_rankd_says(tab, site, action):
    job = submit(site, "bob", "-n", "8", "--name", "of-bob", "--", "true")
    page = tab.open(f"/job/{job}")
    expect(page.get_by_text("belongs to bob")).to_be_visible()
    tab.may_ask = True
    if action == "Change":
        page.get_by_label("Name").fill("taken")
    page.get_by_role("button", name=action).click()
    expect(page.get_by_role("alert")).to_contain_text("belongs to")
    [row] = site.rows("SELECT state, held, name FROM job WHERE id = ?", int(job))
    assert (row["state"], row["held"], row["name"]) == ("pending", 0, "of-bob")


def test_hostile_names_are_shown_as_text(tab, site):
    job = submit(site, "bob", "-n", "8", "--name", HOSTILE, "--comment", HOSTILE, "--", "true", HOSTILE)
    for path in (
        "/queue",
        f"/job/{job}",
        f"/why/{job}",
        "/queue?text=%3Cscript%3Ealert(3)%3C/script%3E&user=%22%3E%3Cb%3E",
    ):
        page = tab.open(path)
        assert page.locator("main script, main img, main b").count() == 0
    page = tab.open(f"/job/{job}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_role("heading", level=1)).to_contain_text("\\u202e\\u001b[31m{{ 7 * 7 }}")


def test_the_keyboard_reaches_everything(tab):
    page = tab.open("/queue?user=bob")
    tab.until_live()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.locator("tbody tr").first.get_by_role("link", name="has its rank").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#explain")).to_contain_text("has rank")
    page.keyboard.press("Escape")
    expect(page.locator("#explain")).to_be_empty()


def test_what_if_computes_and_applies_nothing(tab, site):
    before = site.rows("SELECT count(*) AS n FROM configuration")
    page = tab.open("/whatif?class.low=-70")
    slider, field = page.get_by_label("size, slider"), page.locator('[name="weight.size"]')
    slider.focus()
    slider.press("End")
    expect(field).to_have_value("20000")
    field.fill("90000")
    expect(slider).to_have_value("20000")  # a number beyond the end of the slider counts all the same
    page.locator('[name="offset.root.default"]').fill("-40")
    page.get_by_label("Cores on each node").fill("1")
    page.get_by_role("button", name="Compute").click()
    expect(page.get_by_text("[priority.weights]")).to_be_visible(**PATIENCE)
    expect(page.get_by_text("size = 90000")).to_be_visible()
    expect(page.get_by_text("priority.offset: -40")).to_be_visible()
    expect(page.get_by_text("rankd class create --admin low --value -70")).to_be_visible()
    assert findings(page) == []
    expect(page.get_by_text("The new job would have rank")).to_be_visible()
    assert site.rows("SELECT count(*) AS n FROM configuration") == before
