"""Values of options that commands share."""

import argparse
import re

import pytest

from rankd.cli.common.option import (
    LARGEST_LIMIT,
    MOST_IDS,
    add_broker,
    ids,
    job_name,
    job_names,
    limit,
    names,
    refuse_empty,
)
from rankd.core.errors import Refused


@pytest.mark.parametrize(("text", "found"), [("17", [17]), ("17, 19", [17, 19]), ("3-5,9", [3, 4, 5, 9]), ("5-5", [5])])
def test_ids_are_numbers_and_ranges(text, found):
    assert ids(text) == found


@pytest.mark.parametrize("text", ["x", "-3", "3-", "1-x", "5-3", f"0-{MOST_IDS}"])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not an id"):
        ids(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("17, 19", [17, 19]),
        ("3-5,9", ["3-5", 9]),
        ("1-4000000000", ["1-4000000000"]),
        ("17_[1-5,9],8", ["17_[1-5,9]", 8]),
    ],
)
def test_ranges_of_jobs_stay_ranges(text, found):
    assert job_names(text) == found


@pytest.mark.parametrize("text", ["x", "-3", "3-", "1-x", "1-2-3", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_what_is_no_name_of_a_job_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a job id"):
        job_names(text)


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(argparse.ArgumentTypeError, match="the range 5-3 ends before it begins"):
        job_names("5-3")


@pytest.mark.parametrize(("text", "name"), [("17", 17), ("17_3", "17_3"), ("17_[3-4]", "17_[3-4]")])
def test_one_name_is_a_job_or_tasks(text, name):
    assert job_name(text) == name


@pytest.mark.parametrize("text", ["17,18", "17-18", ""])
def test_several_jobs_are_not_one(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not one job"):
        job_name(text)


@pytest.mark.parametrize("text", ["17_[1-5", "17_x", "17_*", "17_", "3,17_["])
def test_a_name_of_tasks_that_is_none_is_shown_whole(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"^'" + re.escape(text) + r"' is not a job id; .* 17_\[1-5,9\]"
    ):
        job_names(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("20", 20), ("9" * 30, LARGEST_LIMIT)])
def test_a_limit_is_a_whole_number(text, number):
    assert limit(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "many"])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a limit"):
        limit(text)


def test_names_are_parted_by_commas():
    assert names("a, b,,c ") == ["a", "b", "c"]
    assert names("") == []


def test_an_empty_option_is_not_one_that_was_left_out():
    refuse_empty(argparse.Namespace(db=None, nats="nats://x"), "db", "nats", "dir")
    with pytest.raises(Refused, match="--nats is empty"):
        refuse_empty(argparse.Namespace(db=None, nats=""), "db", "nats")


def test_the_option_for_the_broker_may_be_repeated_and_replaces_the_default():
    parser = argparse.ArgumentParser()
    add_broker(parser, "broker", default="nats://of-the-environment")
    assert parser.parse_args([]).nats == "nats://of-the-environment"
    assert parser.parse_args(["--nats", "nats://a,nats://b"]).nats == "nats://a,nats://b"
    assert parser.parse_args(["--nats", "nats://a", "--nats", "nats://b"]).nats == "nats://a,nats://b"
    assert parser.parse_args(["--nats", "nats://c"]).nats == "nats://c"
