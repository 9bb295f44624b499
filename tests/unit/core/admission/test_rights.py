"""Access lists of QoS, classes and accounts: who may use what, and what a refusal says."""

import pytest
from builder import admission_tables

from rankd.core.admission.admit import admit
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.rights import Rights, with_given
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList, AccessLists
from rankd.core.model.job import JobRequest
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.setting import AdmissionSettings, Qos, Settings

QOS = [Qos(name="normal"), Qos(name="high", users=["bob"], groups=["staff"]), Qos(name="shut", users=[])]
LISTS = AccessLists(
    classes={"urgent": AccessList(groups=["staff"]), "all": AccessList(users=["*"])},
    accounts={"physics": AccessList(groups=["staff"]), "open": AccessList(users=["dora"])},
)
TABLES = admission_tables(
    settings=Settings(qos=QOS, admission=AdmissionSettings(unknown_association="default", default_account="open")),
    classes=ClassTable.of([PriorityClass(name="urgent", value=9), PriorityClass(name="all", value=1)]),
    accounts=frozenset({"root", "physics", "biology", "open"}),
    associations=frozenset({("physics", "alice"), ("physics", "gone"), ("biology", "bob")}),
    default_accounts={"alice": "physics", "gone": "physics", "bob": "biology"},
    groups={"sam": ("staff",)},
    rights=Rights.of(QOS, LISTS, [("physics", "alice"), ("biology", "bob")]),
)


def admitted(user, *, privileged=False, **fields):
    return admit(JobRequest(command=["true"], **fields), Submitter(user, privileged), TABLES)


def refusal(user, **fields):
    with pytest.raises(Refused) as caught:
        admitted(user, **fields)
    return caught.value


@pytest.mark.parametrize(
    ("user", "fields", "code"),
    [
        ("alice", {}, None),
        ("alice", {"qos": "high"}, "qos_access"),
        ("bob", {"qos": "high"}, None),
        ("sam", {"qos": "high", "account": "physics"}, None),
        ("bob", {"qos": "shut"}, "qos_access"),
        ("alice", {"priority_class": "urgent"}, "class_access"),
        ("alice", {"priority_class": "all"}, None),
        ("sam", {"priority_class": "urgent", "account": "physics"}, None),
        ("alice", {"account": "physics"}, None),  # the account's own user
        ("gone", {}, "account_access"),  # joined with a job, and is listed no more
        ("bob", {"account": "physics"}, "account_access"),
        ("sam", {"account": "physics"}, None),
        ("sam", {"account": "biology"}, "unknown_association"),  # no list: its own users only
        ("dora", {}, None),  # the account of unlisted users has a list
        ("sam", {}, "account_access"),
    ],
)
def test_a_list_decides_by_user_and_group(user, fields, code):
    if code is None:
        assert admitted(user, **fields).user == user
    else:
        assert refusal(user, **fields).code == code


@pytest.mark.parametrize("fields", [{"qos": "shut"}, {"priority_class": "urgent"}, {"account": "open"}])
def test_administrators_may_use_all(fields):
    assert admitted("alice", privileged=True, **fields).user == "alice"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        (
            {"qos": "high"},
            "qos",
            (
                "user 'alice' may not use the QoS 'high', which is for the user bob and the group staff; "
                "name another QoS, or ask an administrator (administrators add --admin)"
            ),
        ),
        (
            {"qos": "shut"},
            "qos",
            (
                "user 'alice' may not use the QoS 'shut', which is for administrators only; "
                "name another QoS, or ask an administrator (administrators add --admin)"
            ),
        ),
        (
            {"priority_class": "urgent"},
            "priority_class",
            (
                "user 'alice' may not use the priority class 'urgent', which is for the group staff; "
                "name another class, or ask an administrator (administrators add --admin)"
            ),
        ),
        (
            {"account": "open"},
            "account",
            (
                "user 'alice' may not charge the account 'open', which is for the user dora; "
                "name another account, or ask an administrator (administrators add --admin)"
            ),
        ),
    ],
)
def test_a_refusal_says_who_may(fields, field, message):
    error = refusal("alice", **fields)
    assert (error.status, error.field, error.message) == (403, field, message)


def test_root_is_told_how_its_job_gets_there():
    message = refusal("root", qos="high").message
    assert message.endswith("or move the job there once it is submitted, with `rankd update --admin`")


def test_a_long_list_is_cut():
    qos = [Qos(name="normal", users=[f"u{number}" for number in range(9)])]
    tables = admission_tables(rights=Rights.of(qos, AccessLists()))
    with pytest.raises(Refused, match=r"for the users u0, u1, u2, u3, u4 and 4 more; name"):
        admit(JobRequest(command=["true"]), Submitter("alice", privileged=False), tables)


def test_the_lists_of_the_configuration_go_before_those_given_with_classes():
    lists = AccessLists(classes={"a": AccessList(users=["alice"])}, accounts={"p": AccessList()})
    given = {"a": AccessList(users=["bob"]), "b": AccessList(users=["bob"])}
    assert with_given(lists, given) == AccessLists(
        classes={"a": AccessList(users=["alice"]), "b": AccessList(users=["bob"])}, accounts={"p": AccessList()}
    )
