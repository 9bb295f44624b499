"""The documentation site builds without a warning, and reads without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
UNSPLIT_LIST = re.compile(r"<p>(?:(?!</p>)[\s\S])*\n(?:- |\d+\. )")
"""A list that a page begins without an empty line before it: a paragraph on the site."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--site-dir", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return target


def pages(site):
    return {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.glob("**/*.html")}


def test_the_site_has_its_four_parts(site):
    assert {"index.html", "tutorial.html", "how-to/queues.html", "reference/glossary.html", "architecture.html"} <= set(
        pages(site)
    )


def test_no_page_loads_anything_from_the_network(site):
    found = {name: LOADED.findall(text) for name, text in pages(site).items()}
    assert {name: urls for name, urls in found.items() if urls} == {}


def test_no_page_has_a_diagram_that_needs_a_library_from_the_network(site):
    assert [name for name, text in pages(site).items() if 'class="mermaid"' in text] == []


def test_lists_are_lists_on_the_site(site):
    assert [name for name, text in pages(site).items() if UNSPLIT_LIST.search(text)] == []


def test_the_checks_find_what_they_look_for():
    assert LOADED.findall('<script src="https://cdn.example/x.js">') == ["https://cdn.example/x.js"]
    assert LOADED.findall('<a href="https://nats.io">') == []
    assert UNSPLIT_LIST.search("<p><b>text</b>:\n- one</p>")
