"""Columns in shared memory: the same on the other side, and never written over while somebody reads."""

import mmap

import numpy as np
import pytest

from rankd.plugin.block import JOB_BYTES, Blocks, read_columns, write_columns
from rankd.testing import factor_context


def same(one, other):
    names = one.__struct_fields__
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names)


@pytest.mark.parametrize("n", [0, 1, 200])
def test_columns_are_read_as_they_were_written_and_can_not_be_changed(n):
    jobs = factor_context(1, n).jobs
    buffer = bytearray(JOB_BYTES * n)
    write_columns(jobs, buffer)
    found = read_columns(buffer, n)
    assert same(found, jobs)
    assert [getattr(found, name).dtype for name in jobs.__struct_fields__] == [
        getattr(jobs, name).dtype for name in jobs.__struct_fields__
    ]
    for name in jobs.__struct_fields__:
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[:] = 0


def test_all_readers_of_the_same_jobs_share_a_block_and_its_content_stays_until_the_last_is_done():
    blocks, jobs = Blocks(), factor_context(1).jobs
    first, second = blocks.hold(jobs), blocks.hold(jobs)
    assert first is second
    blocks.give_back(first)
    other = blocks.hold(factor_context(2).jobs)
    assert other is not first
    with mmap.mmap(first.descriptor, 0, access=mmap.ACCESS_READ) as mapped:
        found = read_columns(bytearray(mapped), len(jobs))
    assert same(found, jobs)


def test_a_block_that_nobody_reads_is_used_again_unless_it_is_far_too_large():
    blocks = Blocks()
    block = blocks.hold(factor_context(1, 200).jobs)
    blocks.give_back(block)
    again = blocks.hold(factor_context(2, 210).jobs)
    assert again is block
    blocks.give_back(again)
    assert blocks.hold(factor_context(2, 10).jobs).size < block.size
