"""docs/reference/evaluate.md says what the document and the result hold."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.result import Result
from rankd.core.model.job import JobRequest

PAGE = (Path(__file__).parents[4] / "docs/reference/evaluate.md").read_text(encoding="utf-8")
RECORD = {"reason", "ended_at", "exit_status", "signal", "nodelist"}
"""Fields of a job's record that decide nothing; the page names them as a group."""


def names(kind):
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def documented(heading, level=2):
    section = re.split(rf"^#{{{level}}} {heading}$", PAGE, flags=re.MULTILINE)[1]
    rows = re.findall(r"^\| (`[^|]+) \|", re.split(r"^## ", section, flags=re.MULTILINE)[0], flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_section_of_the_document_is_on_the_page():
    own_fields = names(JobEntry) - names(JobRequest) - RECORD
    assert documented("In") == names(Document) | own_fields


def test_every_key_of_the_result_is_on_the_page():
    assert documented("Out") == names(Result)


def test_the_example_can_be_evaluated(decide):
    example = json.loads(re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    decision = decide(**example)
    assert decision["rejected"] == decision["warnings"] == []
    assert decision["ranking"] == ["j1"]


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w./-]+)\)", PAGE))
def test_its_links_lead_somewhere(link):
    assert (Path(__file__).parents[4] / "docs/reference" / link).exists()
