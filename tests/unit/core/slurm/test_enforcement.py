"""What AccountingStorageEnforce enforces."""

import pytest

from rankd.core.slurm.enforcement import Enforcement, read_enforcement
from rankd.core.slurm.reading import Reading


@pytest.mark.parametrize(
    ("value", "associations", "limits", "qos"),
    [
        ("none", False, False, False), ("0", False, False, False), ("(null)", False, False, False),
        ("associations", True, False, False), ("limits", True, True, False), ("safe", True, True, False),
        ("qos", True, False, True), ("all", True, True, True), ("Associations,Limits,QOS", True, True, True),
        ("1", True, False, False), ("nojobs", False, False, False),
    ],
)  # fmt: skip
def test_words_imply_associations(value, associations, limits, qos):
    found = read_enforcement(1, value, Reading("x"))
    assert found == Enforcement(associations=associations, limits=limits, qos=qos)


def test_an_unknown_word_is_named():
    reading = Reading("x")
    assert read_enforcement(3, "everything", reading) == Enforcement()
    assert "'everything'" not in str(reading.remarks[0])
    assert str(reading.remarks[0]).startswith("x:3: AccountingStorageEnforce everything: ")
