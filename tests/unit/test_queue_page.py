"""docs/how-to/queues.md shows what evaluate gives; `python tests/queue_page.py` writes it anew."""

import json

import pytest
import yaml
from queue_page import PAGE, block, evaluated, find, ordinal, written

from rankd.config.queues import check_queues

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_shows_what_evaluate_gives():
    assert written(TEXT) == TEXT


def test_the_example_is_a_good_configuration():
    checked = check_queues(block(TEXT, "yaml"))
    assert (checked.valid, checked.warnings) == (True, ())


def test_a_stale_page_would_be_noticed():
    assert written(TEXT.replace("nightly · misc", "misc · nightly")) == TEXT
    assert written(TEXT.replace('"class_value": 5000', '"class_value": 1')) != TEXT
    assert written(TEXT.replace('"500"', '"-500"')) != TEXT


def test_every_variation_but_the_first_changes_the_order():
    rows = TEXT.split("<!-- variations -->")[1].split("<!-- end -->")[0].strip().splitlines()[2:]
    nothing, *orders = [row.split("|")[2].strip() for row in rows]
    assert len(orders) >= 7
    assert all(order and order != nothing for order in orders)


@pytest.mark.parametrize("path", ["root.research.short", "root"])
def test_queues_are_found_by_their_path(path):
    assert find(yaml.safe_load(block(TEXT, "yaml")), path)["name"] == path.rpartition(".")[2]


def test_all_jobs_of_the_example_are_taken():
    result = evaluated(yaml.safe_load(block(TEXT, "yaml")), json.loads(block(TEXT, "json")))
    assert (result["rejected"], result["warnings"]) == ([], [])
    assert [ordinal(number) for number in (1, 2, 3, 4)] == ["1st", "2nd", "3rd", "4th"]
