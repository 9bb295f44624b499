"""What rankd needs of every factor, and what this one promises beside."""

import pytest
from rankd_site_factor.site_csv import VARIABLE, SiteCsv

from rankd.core.model.setting import PrioritySettings
from rankd.testing import FactorContract, factor_context

HEAD = "account,user,value\n"


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "site.csv"
    path.write_text(HEAD + "physics,alice,1.0\n,alice,0.5\nchemistry,,0.25\n")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


class TestContract(FactorContract):
    factor = SiteCsv


def values(factor):
    context = factor_context(0)
    return dict(zip(context.groups.names.associations, factor.values(context).tolist(), strict=True))


def test_the_most_particular_row_counts():
    found = values(SiteCsv(PrioritySettings()))
    assert found["physics", "alice"] == 1.0
    assert found["chemistry", "alice"] == 0.5
    assert found["chemistry", "bob"] == 0.25
    assert found["physics", "bob"] == 0.0


def test_a_changed_file_is_read_again(file):
    factor = SiteCsv(PrioritySettings())
    values(factor)
    file.write_text(HEAD + "physics,,0.125\n")
    assert values(factor)["physics", "bob"] == 0.125


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: the columns must be"),
        ("user,value\nalice,1\n", ":1: the columns must be"),
        (HEAD + "physics,alice,much\n", ":2: 'much' is no number"),
        (HEAD + "physics,alice\n", ":2: None is no number"),
        (HEAD + ",bob,0.5\nphysics,alice,1.5\n", r":3: 1.5 is not in \[0, 1\]"),
        (HEAD + "physics,alice,nan\n", r":2: nan is not in \[0, 1\]"),
        (HEAD + ",,0.5\n", ":2: neither an account nor a user"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(file, text, told):
    file.write_text(text)
    with pytest.raises(ValueError, match=told):
        values(SiteCsv(PrioritySettings()))


def test_a_missing_file_is_an_error_at_each_pass_not_at_the_start(file):
    file.unlink()
    factor = SiteCsv(PrioritySettings())
    with pytest.raises(OSError, match="No such file"):
        values(factor)
