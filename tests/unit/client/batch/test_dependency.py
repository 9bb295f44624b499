"""Dependencies in Slurm's syntax, and what is said about wrong ones."""

import pytest

from rankd.client.batch.dependency import parse_dependencies
from rankd.core.errors import Refused


def test_all_types_and_names_are_read():
    assert parse_dependencies("afterok:1:2_3, singleton,after:4") == [
        {"type": "afterok", "job": 1}, {"type": "afterok", "job": "2_3"}, {"type": "singleton"},
        {"type": "after", "job": 4},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("afterok:34_[0-1]", "names several tasks at once; write afterok:34_0:34_1, or afterok:34 for the whole array"),
        ("afterok:34_[0,1],singleton", "'afterok:34_[0,1]' names several tasks at once"),
        ("26,27", "'26' lacks a type; write afterok:26 to wait until it has completed, or afterany:26"),
        ("afterany:26,27", "'27' lacks a type; jobs of one type are separated by colons: write afterany:26:27"),
        ("singleton,27", "'27' lacks a type; write afterok:27"),
        (
            "after:26+5",
            "has a delay after the start (+), which is not supported; write after:26, and --begin for a time",
        ),
        ("afterOk:26", "has an unknown type; write afterok:26"),
        ("after_ok:26", "has an unknown type; write afterok:26"),
        ("ok:26", "has an unknown type; write afterok:26"),
        ("afterokay:26", "has an unknown type; write afterok:26"),
        ("Singleton", "has an unknown type; write singleton"),
        ("singleton:3", "write singleton alone"),
        ("afterok", "names no job; write afterok:17"),
        ("afterok:", "names no job; write afterok:17"),
        ("afterok:train", "has 'train' in the place of a job; write afterok:17"),
        ("afterok:1::2", "has '' in the place of a job"),
        ("expand:3", "is not a dependency; write afterok:17, "),
        ("afterok:1?afterok:2", "alternatives (?) are not supported"),
        ("", "is not a dependency"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(text, said):
    with pytest.raises(Refused) as caught:
        parse_dependencies(text)
    assert said in caught.value.message
    assert caught.value.code == "usage"
