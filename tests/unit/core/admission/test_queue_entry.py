"""Queues as submissions see them: who is let in, and which queues first use makes."""

import pytest

from rankd.config.queues import read_queues
from rankd.core.admission.acl import Acl, parse_acl
from rankd.core.admission.queue_entry import entries_with, find_queue, made_queue, queue_entries
from rankd.core.admission.rights import Named, Rights, check_rights
from rankd.core.errors import Refused


def entries(text):
    """The entries of a file's first partition."""
    return queue_entries(read_queues(text).partitions[0])


def of_root(body, head=""):
    return entries(f"partitions: [{{name: default, queues: [{{name: root, {head} queues: [{body}]}}]}}]")


# --- access ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "users", "groups"),
    [
        ("", set(), set()),
        (" ", set(), set()),
        ("alice", {"alice"}, set()),
        ("alice,bob", {"alice", "bob"}, set()),
        ("alice dev,ops", {"alice"}, {"dev", "ops"}),
        (" dev", set(), {"dev"}),
        ("alice ", {"alice"}, set()),
        ("alice,* dev", {"alice", "*"}, {"dev"}),  # among others, the star is a name that nobody has
    ],
)
def test_a_list_names_users_then_groups(text, users, groups):
    assert parse_acl(text) == Acl(frozenset(users), frozenset(groups))


@pytest.mark.parametrize("text", ["*", " * ", "* dev", "alice *", " *"])
def test_a_star_is_everyone(text):
    assert parse_acl(text).allows("nobody", ())


OPEN_TO = """
{name: staff, submitacl: "alice dev", queues: [{name: own, submitacl: bob}, {name: run, adminacl: " ops"}]},
{name: shut}
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("root.staff.own", {"alice", "bob", "dora"}),  # named there or above, as user or by group
        ("root.staff.run", {"alice", "dora", "otto"}),  # administrators of a queue may submit to it
        ("root.shut", set()),  # no list lets anybody in
    ],
)
def test_access_adds_up_down_the_path(path, allowed):
    groups = {"dora": ["dev"], "otto": ["ops"]}
    queue = of_root(OPEN_TO)["default", path]
    users = ("alice", "bob", "dora", "otto", "eve")
    let_in = {user for user in users if queue.access.allows(user, groups.get(user, ()))}
    assert let_in == allowed
    for user in {"alice", "bob", "eve"} - allowed:
        with pytest.raises(Refused) as caught:
            check_rights(Named(user, [], queue, None, None, None), Rights())
        assert (caught.value.code, caught.value.field, caught.value.status) == ("queue_access", "queue", 403)
        assert user in caught.value.message
        assert path in caught.value.message


def test_a_partition_without_any_list_is_open_to_all():
    queue = of_root("{name: a}")["default", "root.a"]
    assert queue.access is None
    check_rights(Named("anybody", [], queue, None, None, None), Rights())


def test_a_list_that_is_one_blank_closes_the_partition():
    assert not of_root("{name: a}", 'submitacl: " ",')["default", "root.a"].access.allows("anybody", ())


# --- first use ---------------------------------------------------------------------------------------------------

TENANTS = """
{name: tenants, parent: true, submitacl: alice, resources: {max: {vcore: 8}},
 childtemplate: {maxapplications: 3, resources: {max: {vcore: 2, gpu: 1}}, properties: {priority.offset: "7"}},
 queues: [{name: Known}, {name: deep, parent: true}]},
{name: plain, parent: true}, {name: leaf}
"""


def made(wanted, partitions=("default",)):
    return made_queue(wanted, partitions, of_root(TENANTS))


@pytest.mark.parametrize("wanted", ["root.tenants.new", "tenants.new", "ROOT.TENANTS.new"])
def test_first_use_makes_a_leaf_below_a_parent_with_a_template(wanted):
    queue = made(wanted)
    assert (queue.path, queue.is_leaf, queue.maximum) == ("root.tenants.new", True, {"vcore": 2000, "gpu": 1})
    assert [(own.path, own.maxapplications) for own in queue.made] == [("root.tenants.new", 3)]
    assert queue.access.allows("alice", ())


def test_a_template_reaches_through_the_queues_below_and_through_those_that_are_made_between():
    queue = made("tenants.deep.a.b")
    assert [(own.path, own.parent, own.properties.priority_offset) for own in queue.made] == [
        ("root.tenants.deep.a", True, 0),
        ("root.tenants.deep.a.b", False, 7),
    ]


@pytest.mark.parametrize("wanted", ["plain.x", "x", "leaf.x", "tenants.known.x", "root", "gone.tenants.x"])
def test_nothing_is_made_where_no_parent_allows_it(wanted):
    assert made(wanted) is None


@pytest.mark.parametrize("name", ["a b", "", "x" * 65, "ü"])
def test_a_name_that_no_queue_may_have_is_refused(name):
    with pytest.raises(Refused) as caught:
        made(f"root.tenants.{name}")
    assert (caught.value.code, caught.value.field) == ("bad_queue_name", "queue")


def test_what_is_there_is_found_ignoring_case_and_without_root():
    found = of_root(TENANTS)
    assert find_queue("TENANTS.known", ("other", "default"), found).path == "root.tenants.Known"
    assert find_queue("tenants.new", ("default",), found) is None


def test_jobs_of_one_message_see_the_queues_that_those_before_make():
    """And make them too: a job before may turn out to be stored already, so that it makes nothing."""
    known = of_root(TENANTS)
    first = made_queue("tenants.p.q", ("default",), known)
    after = entries_with(first.made, "default", known)
    assert find_queue("tenants.P.Q", ("default",), after) == first
    assert not find_queue("tenants.p", ("default",), after).is_leaf
    beside = made_queue("tenants.p.r", ("default",), after)
    assert [own.path for own in beside.made] == ["root.tenants.p", "root.tenants.p.r"]
    assert made_queue("tenants.p.q.r", ("default",), after) is None
    both = entries_with(beside.made, "default", after)
    assert [find_queue(f"tenants.p.{name}", ("default",), both).maximum for name in "qr"] == [first.maximum] * 2
