"""What a command says if it does not show all."""

import pytest

from rankd.cli.common.limit import say_cut


def test_a_list_that_is_cut_says_so(capsys):
    say_cut(1000, 12_345, "newest")
    assert capsys.readouterr() == (
        "", "rankd: only the newest 1,000 of 12,345 jobs are shown; give --limit N, or a filter\n"
    )  # fmt: skip


@pytest.mark.parametrize("total", [0, 3])
def test_a_whole_list_says_nothing(capsys, total):
    say_cut(3, total, "next")
    assert capsys.readouterr() == ("", "")
