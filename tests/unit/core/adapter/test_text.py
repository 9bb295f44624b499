"""Texts as rows, and texts that are half written."""

import re

import pytest

from rankd.core.adapter.text import rows_of_text

SSHARE = "Account|User|RawShares|RawUsage\nroot|||9\n a||3|9\n  a|u|parent|9\n"
DUMP = (
    "QOS - 'high':Priority=5\nCluster - 'x'\nAccount - 'a':Fairshare=3\nParent - 'a'\nUser - 'u':DefaultAccount='a'\n"
)


def test_the_same_rows_in_every_format():
    rows = [{"user": "u", "group": "g"}, {"user": "v", "group": "h"}]
    assert rows_of_text("user, group\nu,g\n\nv ,h\n", "csv", "groups") == rows
    assert rows_of_text("\ufeffuser;group\r\nu;g\r\nv;h\r\n", "csv", "groups", ";") == rows
    assert rows_of_text('[{"user": "u", "group": "g"}, {"user": "v", "group": "h"}]', "json", "groups") == rows
    assert rows_of_text('{"rows": [{"user": "u", "group": "g"}, {"user": "v", "group": "h"}]}', "json", "") == rows
    text = '[[rows]]\nuser = "u"\ngroup = "g"\n[[rows]]\nuser = "v"\ngroup = "h"\n'
    assert rows_of_text(text, "toml", "groups") == rows


def test_slurms_outputs_give_what_is_wanted_of_them():
    assert list(rows_of_text(SSHARE, "slurm", "usage")) == [{"account": "a", "user": "u", "usage": 9.0}]
    assert list(rows_of_text(SSHARE, "slurm", "associations")) == [
        {"account": "a", "shares": 3.0, "priority": 0, "parent": "root"},
        {"account": "a", "shares": "parent", "priority": 0, "user": "u", "default": False},
    ]
    assert list(rows_of_text(DUMP, "slurm", "qos")) == [{"name": "high", "priority": 5, "usage_factor": 1.0}]
    assert list(rows_of_text(DUMP, "slurm", "associations"))[1]["default"] is True


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("", "csv", "it is empty"),
        ("\n \n", "json", "it is empty"),
        ("account,shares\na,1", "csv", "the last line has no end"),
        ("account,shares\na,1\nb\n", "csv", "row 2 has 1 cells and the header 2; is it half written?"),
        ("account,account\na,b\n", "csv", "the header has the column 'account' twice"),
        ('account\n"a\n', "csv", "it is not CSV"),
        ('[{"account": "a"}, {"acc', "json", "it is not JSON, or half written"),
        ('[{"shares": NaN}]', "json", "it is not JSON"),
        ("[" * 100_000, "json", "it is not JSON"),
        ("[1, 2]", "json", "row 1 is not a mapping of columns to values"),
        ('{"a": 1, "b": 2}', "json", "a list of rows is needed"),
        ("[[rows]]\nuser = ", "toml", "the last line has no end"),
        ("[[rows]]\nuser = \n", "toml", "Invalid value"),
        ("hello\n", "slurm", "it is not one of Slurm's outputs"),
        (SSHARE[:-10] + "\n", "slurm", "4: has 2 cells, but the header has 4; is the file whole?"),
        (DUMP[:-2] + "\n", "slurm", "quote that is not closed; is the file whole?"),
        (DUMP[:-20], "slurm", "the last line has no end"),
    ],
)
def test_what_can_not_be_read_or_is_half_written_is_refused(text, form, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        rows_of_text(text, form, "associations")


def test_slurm_has_no_groups():
    with pytest.raises(ValueError, match="but not groups"):
        rows_of_text(DUMP, "slurm", "groups")
