"""What came from outside over what the configuration says."""

from rankd.core.adapter.input import AssociationRow, GroupRow, QosRow
from rankd.core.adapter.overlay import overlay_associations, overlay_groups, overlay_qos
from rankd.core.model.association import Association
from rankd.core.model.setting import Qos

BASE = (
    Association(account="a", shares=3, priority=2),
    Association(account="a", user="u", shares=5, default=True),
    Association(account="b", parent="a"),
)


def test_a_row_changes_what_it_gives_and_nothing_else():
    rows = [AssociationRow(account="a", shares="parent"), AssociationRow(account="a", user="u", priority=9)]
    assert overlay_associations(BASE, rows) == (
        Association(account="a", shares="parent", priority=2),
        Association(account="a", user="u", shares=5, priority=9, default=True),
        Association(account="b", parent="a"),
    )


def test_new_entries_come_behind_and_accounts_move():
    rows = [AssociationRow(account="c", parent="b", shares=2), AssociationRow(account="b", parent="root")]
    assert overlay_associations(BASE, rows)[2:] == (
        Association(account="b", parent="root"),
        Association(account="c", parent="b", shares=2),
    )


def test_a_user_has_one_default_however_many_were_marked():
    rows = [AssociationRow(account="b", user="u", default=True)]
    merged = {(entry.account, entry.user): entry.default for entry in overlay_associations(BASE, rows)}
    assert (merged["a", "u"], merged["b", "u"]) == (False, True)


def test_of_two_rows_the_later_wins():
    rows = [AssociationRow(account="a", shares=1), AssociationRow(account="a", shares=8)]
    assert overlay_associations(BASE, rows)[0].shares == 8


def test_without_rows_everything_stays():
    assert overlay_associations(BASE, []) == BASE
    assert overlay_qos([Qos(name="q")], []) == [Qos(name="q")]


def test_qos_and_groups():
    base = [Qos(name="q", priority=3, usage_factor=2.0)]
    rows = [QosRow(name="q", priority=4), QosRow(name="r", factor=0.5)]
    assert overlay_qos(base, rows) == [Qos(name="q", priority=4, usage_factor=2.0), Qos(name="r", factor=0.5)]
    assert overlay_groups({"u": ("x",)}, [GroupRow(group="a", user="u"), GroupRow(group="a", user="v")]) == {
        "u": ("a", "x"), "v": ("a",),
    }  # fmt: skip
