"""The words of waiting times."""

from rankd.core.model.wait_part import COLUMNS
from rankd.core.model.wait_word import WAITED


def test_every_part_has_a_word():
    assert list(WAITED) == list(COLUMNS.values())
    assert len(set(WAITED.values())) == len(WAITED)
