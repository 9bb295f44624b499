"""What a reading notes, and the numbers by which Slurm says that nothing was set."""

import pytest

from rankd.core.errors import ConfigurationError
from rankd.core.model.association import Association
from rankd.core.slurm.reading import Entries, Reading


@pytest.mark.parametrize("text", ["", "(null)", "4294967295", "4294967294", "N/A"])
def test_infinite_and_no_val_are_the_default(text):
    reading = Reading("f")
    assert reading.amount(1, "shares", text, 7.0) == 7.0
    assert not reading.problems


@pytest.mark.parametrize("text", ["parent", "PARENT", "2147483647"])
def test_parent_shares_are_also_written_as_their_number(text):
    assert Reading("f").shares(1, "ann", text) == "parent"


@pytest.mark.parametrize(("text", "lines"), [("-1", [3]), ("nan", [3]), ("inf", [3]), ("x", [3]), ("1.5", [3])])
def test_a_number_that_cannot_be_used_is_refused_with_its_line(text, lines):
    reading = Reading("f")
    assert reading.whole(3, "priority", text, 4) == 4
    assert [problem.line for problem in reading.problems] == lines
    with pytest.raises(ConfigurationError):
        reading.raise_problems()


def test_associations_per_partition_become_one_with_all_of_their_usage():
    reading = Reading("f")
    entries = Entries(reading)
    entries.add(Association(account="a", user="ann", shares=2.0, usage=10.0), 1, "debug")
    entries.add(Association(account="a", user="ann", shares=5.0, usage=30.0), 2, "batch")
    [kept] = entries.accounting().associations
    assert (kept.shares, kept.usage) == (2.0, 40.0)
    assert not reading.problems
    assert [remark.line for remark in reading.remarks] == [1, 2]


def test_the_same_association_twice_is_refused():
    reading = Reading("f")
    entries = Entries(reading)
    for line in (1, 2):
        entries.add(Association(account="a"), line)
    assert "a" in entries
    assert [problem.line for problem in reading.problems] == [2]
