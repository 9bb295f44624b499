"""Times. The six forms are those of the manual of ``sbatch`` (``--time``)."""

import pytest

from rankd.core.slurm.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),  # minutes
        ("5:30", 330),  # minutes:seconds
        ("1:05:30", 3930),  # hours:minutes:seconds
        ("2-3", 183_600),  # days-hours
        ("2-3:04", 183_840),  # days-hours:minutes
        ("2-3:04:05", 183_845),  # days-hours:minutes:seconds
        (" 0 ", 0),
    ],
)
def test_each_form_of_the_manual_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "UNLIMITED", "1:2:3:4", "-5", "1.5", "2-", "1-2-3"])
def test_anything_else_is_no_time(text):
    with pytest.raises(ValueError, match="is not a time"):
        parse_duration(text)
