"""A user who has used as much of an account as is the user's share of it is at par, however small the account is."""

import pytest

from rankd.store.look.share_list import share_to_compare


def row(part, level=1.0, shares=1.0):
    return {"shares": shares, "shares_norm": part, "level_fairshare": level}


@pytest.mark.parametrize(
    ("own", "above", "share"),
    [
        (row(0.2), 0.2, 1.0),  # the only user of an account with a fifth of the site
        (row(0.4), 0.6, pytest.approx(2 / 3)),
        (row(0.4, "inf"), 0.6, pytest.approx(2 / 3)),  # who has used nothing
        (row(0.4, None), 0.6, 0.4),  # the classic formula: use is of the whole, too
        (row(1.0, None), None, 1.0),  # the root
        (row(0.4, shares="parent"), 0.6, None),
        (row(None, None), None, None),  # no generation yet
        (row(0.0), 0.0, 0.0),
    ],
)
def test_the_share_is_a_part_of_what_the_use_is_a_part_of(own, above, share):
    assert share_to_compare(own, above) == share
