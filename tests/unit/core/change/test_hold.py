"""Whose hold it is: the owner's, or an administrator's that stays until an administrator ends it."""

import pytest

from rankd.core.admission.submitter import Submitter
from rankd.core.change.hold import check_release, holder, is_of_administrator
from rankd.core.errors import Refused

ALICE, ROOT = Submitter("alice", privileged=False), Submitter("root", privileged=True)


@pytest.mark.parametrize(
    ("held_by", "asker", "after"),
    [
        (None, ALICE, "alice"),
        (None, ROOT, "root"),
        ("alice", ROOT, "root"),
        ("root", ALICE, "root"),
        ("root", Submitter("eve", privileged=True), "eve"),
    ],
)
def test_the_owner_does_not_take_over_what_an_administrator_holds(held_by, asker, after):
    assert holder("alice", held_by, asker) == after


def test_an_own_hold_is_the_owners_also_with_an_administrators_rights():
    assert not is_of_administrator("root", holder("root", None, ROOT))


@pytest.mark.parametrize(("held_by", "asker"), [(None, ALICE), ("alice", ALICE), ("root", ROOT), ("eve", ROOT)])
def test_who_may_end_a_hold(held_by, asker):
    check_release(7, "alice", held_by, asker)


def test_the_owner_is_told_who_holds_the_job():
    with pytest.raises(Refused, match="job 7 is held by the administrator 'root'; ask for its release") as caught:
        check_release(7, "alice", "root", ALICE)
    assert (caught.value.code, caught.value.status) == ("admin_hold", 403)
