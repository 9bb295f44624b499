"""Directives of hostile scripts: the only errors are those that name a line, and words are those of a shell."""

from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.client.batch.layer import merged, of_script, option_parser
from rankd.core.errors import Refused
from rankd.core.slurm.sbatch_option import OPTIONS, translate
from rankd.core.submission.directive import read_directives, split_words

PARSER = option_parser()
OPEN = argparse.Namespace(export_env=[])

text = st.text(max_size=60)
names = st.sampled_from([f"--{name}" for name in OPTIONS] + [f"-{one.spelling.letter}" for one in OPTIONS.values()])
values = st.one_of(text, st.sampled_from(["1", "4G", "a:b", "0", "%j", "-1", "1-", "gpu:a:2", "n[1-3]", "9" * 5000]))
words = st.one_of(text, names, st.builds("{}={}".format, names, values), values)
lines = st.one_of(
    text,
    st.builds("#{} {}".format, st.sampled_from(["SBATCH", "RANKD"]), text),
    st.builds("#{} {}".format, st.sampled_from(["SBATCH", "RANKD"]), st.lists(words, max_size=4).map(shlex.join)),
)
scripts = st.lists(lines, max_size=8).map(lambda found: "\n".join(["#!/bin/sh", *found]))


def told(action):
    """The result; None if it is refused as it should be."""
    caught = None
    try:
        return action()
    except Refused as error:
        caught = error
    assert (caught.code, caught.message[:5]) == ("bad_directive", "line ")
    return None


@given(scripts)
def test_reading_raises_nothing_but_an_error_with_a_line(script):
    found = told(lambda: read_directives(script))
    if found is None:
        return
    split = script.split("\n")
    assert all(split[one.line - 1].startswith(f"#{one.kind}") for one in found)


@given(scripts, st.booleans())
def test_so_does_turning_them_into_options(script, ignores):
    found = told(lambda: of_script(script, "x", PARSER, lambda _: None, ignores=ignores))
    if found is None:
        return
    assert all((error.code, error.message[:5]) == ("bad_directive", "line ") for error in found.problems)
    where = merged(argparse.Namespace(**vars(OPEN)), found.layers)
    assert all(place.startswith("x line ") for place in where.values())


@given(st.lists(words, max_size=5))
def test_a_line_of_sbatch_is_translated_or_refused(given_words):
    try:
        ours, _, _ = translate(given_words)
    except ValueError:
        return
    assert all(word.startswith("--") for word in ours)


@given(st.lists(st.text(max_size=10), max_size=6))
def test_quoted_words_come_back(original):
    assert split_words(shlex.join(original)) == original


@given(st.text(alphabet="ab '\"\\\t", max_size=30))
def test_words_are_those_of_shlex(line):
    try:
        expected = shlex.split(line)
    except ValueError:
        with pytest.raises(ValueError, match=r"quote|backslash"):
            split_words(line)
    else:
        assert split_words(line) == expected
