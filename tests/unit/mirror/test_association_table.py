import math

from builder import NOW

from rankd.core.model.association import Association
from rankd.mirror.association_table import AssociationTable
from rankd.store.feed.association import AssociationRow
from rankd.store.feed.charge import ChargeRow


def row(id_, account, user=None, *, usage=0.0, is_configured=True):
    parent = None if user or account == "root" else "root"
    association = Association(account=account, user=user, parent=parent)
    return AssociationRow(id=id_, association=association, usage=usage, usage_at=NOW, is_configured=is_configured)


ROWS = [row(1, "root"), row(2, "lab"), row(7, "lab", "bob", usage=5.0), row(9, "lab", "amy", is_configured=False)]


def table(*, only_configured):
    known = AssociationTable()
    known.replace(ROWS, only_configured=only_configured)
    return known


def charge(allocation, association, until=None):
    return ChargeRow(allocation=allocation, association=association, rate=2.0, since=NOW, until=until)


def test_ids_are_in_the_order_of_the_tree():
    known = table(only_configured=False)
    by_user = dict(zip(known.tree.users, known.ids.tolist(), strict=True))
    assert by_user == {"bob": 7, "amy": 9}
    assert dict(zip(known.tree.accounts, known.node_ids.tolist(), strict=False)) == {"root": 1, "lab": 2}
    assert known.outside == frozenset()


def test_users_whom_no_configuration_lists_may_stay_outside():
    known = table(only_configured=True)
    assert known.tree.users == ("bob",)
    assert known.ids.tolist() == [7]
    assert known.outside == {9}
    known.forget_outside()
    assert known.outside == frozenset()


def test_charges_belong_to_associations_inside_and_outside_of_the_tree():
    inside, outside = table(only_configured=True).ledgers([charge(20, 7), charge(21, 9, until=NOW + 3)])
    assert inside.association_ids.tolist() == [7]
    assert inside.allocation_ids.tolist() == [20]
    assert inside.usage.amounts.tolist() == [5.0]
    assert inside.usage.until.tolist() == [math.inf]
    assert outside.association_ids.tolist() == [9]
    assert outside.allocation_ids.tolist() == [21]
    assert outside.usage.until.tolist() == [NOW + 3]


def test_settled_usage_is_used_from_then_on():
    known = table(only_configured=False)
    known.settle([(8.0, NOW + 1, 9)])
    inside, _ = known.ledgers([])
    usage = dict(zip(inside.association_ids.tolist(), inside.usage.amounts.tolist(), strict=True))
    assert usage == {7: 5.0, 9: 8.0}
