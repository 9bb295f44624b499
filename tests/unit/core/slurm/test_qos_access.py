"""Which users may use which QoS."""

from rankd.core.model.association import Association
from rankd.core.slurm.qos_access import users_of_qos
from rankd.core.slurm.reading import Reading

TREE = [
    Association(account="b", parent="a"), Association(account="a"), Association(account="a", user="ann"),
    Association(account="b", user="bob"), Association(account="b", user="eve"), Association(account="a", user="bob"),
]  # fmt: skip
NAMES = ["normal", "high", "low"]


def allowed(lists, names=NAMES):
    own = Reading("import")
    found = users_of_qos(TREE, lists, names, own)
    return {name: users if users is None else sorted(users) for name, users in found.items()}, own.remarks


def test_without_lists_all_users_may_use_all():
    assert allowed({}) == ({"normal": None, "high": None, "low": None}, [])


def test_accounts_and_users_add_to_what_is_above_them():
    lists = {("root", None): "normal", ("b", None): "+high", ("b", "eve"): "+low,-high"}
    found, [remark] = allowed(lists)
    assert found == {"normal": None, "high": ["bob"], "low": ["eve"]}
    assert "may use each of these in all their accounts" in remark.message


def test_a_list_without_signs_replaces_the_one_above():
    assert allowed({("root", None): "normal,high", ("b", None): "low"})[0] == {
        "normal": ["ann", "bob"], "high": ["ann", "bob"], "low": ["bob", "eve"],
    }  # fmt: skip


def test_a_cycle_of_accounts_ends():
    tree = [
        Association(account="x", parent="y"),
        Association(account="y", parent="x"),
        Association(account="x", user="u"),
    ]
    assert users_of_qos(tree, {("root", None): "normal"}, ["normal"], Reading("x")) == {"normal": None}
