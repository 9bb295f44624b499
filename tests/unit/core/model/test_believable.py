"""What a node reports of a job is kept within what a machine can do."""

import math

import pytest

from rankd.core.model.believable import (
    LARGEST_RSS_BYTES,
    LONGEST_TEXT,
    MOST_CORES,
    believable_cpu_s,
    believable_number,
    believable_rss,
    believable_text,
    believable_time,
)


@pytest.mark.parametrize("at", [-1.0, 0.0, 99.9, 150.0, 1e11, math.nan, math.inf, -math.inf])
def test_a_time_is_never_before_the_allocation_nor_after_now(at):
    assert 100.0 <= believable_time(at, 100.0, 200.0) <= 200.0


def test_a_clock_that_was_set_back_does_not_move_an_end_before_its_start():
    assert believable_time(150.0, 100.0, 50.0) == 100.0


def test_what_no_machine_has_is_not_kept():
    assert [believable_rss(n) for n in (LARGEST_RSS_BYTES, LARGEST_RSS_BYTES + 1)] == [LARGEST_RSS_BYTES, None]
    assert believable_cpu_s(3.0 * MOST_CORES, 2.0) == 3.0 * MOST_CORES
    assert believable_cpu_s(3.1 * MOST_CORES, 2.0) is None
    assert believable_cpu_s(math.nan, 2.0) is None
    assert believable_rss(None) is None


def test_a_number_that_no_process_ends_with_counts_as_a_failure():
    assert [believable_number(n, 255) for n in (None, 0, 255, 256, -1)] == [None, 0, 255, 255, 255]


def test_a_text_is_cut():
    assert believable_text("a" * 10_000) == "a" * LONGEST_TEXT
    assert believable_text(None) is None
