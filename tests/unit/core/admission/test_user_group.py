from rankd.core.admission.acl import Acl
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.admission.rights import Rights
from rankd.core.admission.user_group import UserGroups, lists_groups, makes_staff_by_group, own_groups
from rankd.core.model.queue import Limit
from rankd.core.model.setting import AdmissionSettings

STAFF = Acl(groups=frozenset({"staff"}))
NONE: frozenset[str] = frozenset()
ANN = Acl(users=frozenset({"ann"}))


def queues(**fields):
    return {("default", "root.a"): QueueEntry(partition="default", path="root.a", is_leaf=True, **fields)}


def test_what_the_configuration_says_of_a_user_replaces_what_the_host_says():
    groups = UserGroups({"ann": ("optics",), "eve": ()}, host := {"ann": ("sudo",), "eve": ("staff",)})
    assert (groups.get("ann"), groups.get("eve"), groups.get("bob")) == (("optics",), ("staff",), None)
    host["bob"] = ("staff",)
    assert groups["bob"] == ("staff",), "users who are looked up later"
    assert sorted(groups) == ["ann", "bob", "eve"]
    assert len(groups) == 3


def test_the_host_is_asked_only_if_a_list_or_limit_names_a_group():
    assert not lists_groups(queues(access=ANN, admins=ANN, limits=(("root", (Limit(users=("*",)),)),)), Rights(), NONE)
    assert not lists_groups({}, Rights(qos={"high": ANN}, classes={"urgent": ANN}, accounts={"lab": ANN}), NONE)
    for lists in (Rights(qos={"q": STAFF}), Rights(classes={"c": STAFF}), Rights(accounts={"a": STAFF})):
        assert lists_groups({}, lists, NONE)
    for fields in ({"access": STAFF}, {"admins": STAFF}, {"limits": (("root", (Limit(groups=("*",)),)),)}):
        assert lists_groups(queues(**fields), Rights(), NONE)


def test_a_group_in_a_list_of_users_makes_nobody_an_administrator():
    assert not makes_staff_by_group(queues(access=STAFF), AdmissionSettings(), NONE)
    assert makes_staff_by_group(queues(admins=STAFF), AdmissionSettings(), NONE)
    for name in ("admin_groups", "operator_groups"):
        assert makes_staff_by_group({}, AdmissionSettings(**{name: ["staff"]}), NONE)


def test_a_group_that_accounts_yaml_defines_is_not_the_hosts_group_of_that_name():
    own = own_groups(["staff"], {})
    assert not lists_groups(queues(access=STAFF, admins=STAFF), Rights(qos={"q": STAFF}), own)
    assert not makes_staff_by_group(queues(admins=STAFF), AdmissionSettings(admin_groups=["staff"]), own)
    assert lists_groups({}, Rights(qos={"q": Acl(groups=frozenset({"staff", "more"}))}), own)
    assert makes_staff_by_group({}, AdmissionSettings(operator_groups=["staff", "more"]), own)
