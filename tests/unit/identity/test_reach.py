"""What each role imports: the own name only, and nothing of JetStream."""

import pytest

from rankd.identity.reach import (
    admin_imports,
    enrolment_imports,
    gateway_imports,
    hub_exports,
    hub_imports,
    node_exports,
    node_imports,
    services_exports,
    session_imports,
    user_imports,
)
from rankd.wire.subject import encode_name, session_in

NAMES = ["alice", "first.last", "*", ">", "a b", "rankd.v1", "é", "a%2Eb", "%2A"]


def matches(pattern, subject):
    """As the server matches a subject, which may itself be a pattern, against an export."""
    for wanted, given in zip(pattern.split("."), subject.split("."), strict=False):
        if wanted == ">":
            return True
        if wanted not in ("*", given):
            return False
    return len(pattern.split(".")) == len(subject.split("."))


def vouching_node(services, node):
    return node_imports(services, node, vouches=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("imports", [user_imports, admin_imports, node_imports, gateway_imports, vouching_node])
def test_every_import_is_exported_and_no_name_is_a_pattern(imports, name):
    exported = services_exports()
    for one in imports("ASERVICES", name):
        assert any(one.type == other.type and matches(other.subject, one.subject) for other in exported), one
        tokens = one.subject.removeprefix("rankd.v1.internal.health.*").split(".")
        assert not {"*", " "} & set(tokens), one
        assert "" not in one.subject.split("."), one
        assert ">" not in one.subject.removesuffix(".>"), one


@pytest.mark.parametrize("imports", [user_imports, node_imports])
def test_two_names_share_only_public_events(imports):
    one = {(found.type, found.subject) for found in imports("A", "alice")}
    other = {(found.type, found.subject) for found in imports("A", "bob")}
    assert all(kind == "stream" and ".event." in subject and ".job." not in subject for kind, subject in one & other)


@pytest.mark.parametrize("imports", [user_imports, admin_imports, node_imports, gateway_imports, vouching_node])
def test_nobody_imports_jetstream_or_the_services_own_subjects(imports):
    for one in imports("A", "alice"):
        assert "$JS" not in one.subject
        assert ".internal." not in one.subject or one.subject.endswith("internal.health.*")


def test_a_user_reaches_no_stream_that_captures_what_is_published():
    asked = [one.subject for one in user_imports("A", "alice") if one.type == "service"]
    assert asked == ["rankd.v1.user.alice.>"]
    listed = [one.subject for one in user_imports("A", "alice", may_enqueue=True) if one.type == "service"]
    assert listed == ["rankd.v1.user.alice.>", "rankd.v1.enqueue.alice"]


def test_a_node_asks_as_itself_and_hears_its_own_hints():
    imports = {(one.type, one.subject) for one in node_imports("A", "n1")}
    kinds = ("register", "heartbeat", "leave", "take", "report", "device", "renew", "opened")
    asked = {("service", f"rankd.v1.node.n1.{kind}") for kind in kinds}
    assert imports == {*asked, *(("stream", f"rankd.v1.node.n1.{kind}") for kind in ("allocation", "session"))}


@pytest.mark.parametrize("name", NAMES)
def test_a_session_is_one_user_with_one_node_through_the_hub(name):
    [offered] = hub_exports()
    [users] = session_imports("AHUB", name)
    [nodes] = hub_imports({name: "ANODE"})
    [own] = node_exports(name)
    assert matches(offered.subject, users.subject)
    assert own.subject == nodes.subject
    assert {offered.response_type, own.response_type} == {"Stream"}
    assert (users.account, nodes.account) == ("AHUB", "ANODE")
    assert users.subject.split(".")[3] == own.subject.split(".")[4] == encode_name(name)
    assert not matches(session_imports("AHUB", "other")[0].subject, session_in(name, "n1", "s1"))
    assert not matches(hub_imports({"other": "A"})[0].subject, session_in("alice", name, "s1"))


def test_only_a_gateway_asks_for_others_and_under_its_own_name_only():
    assert [one.subject for one in gateway_imports("A", "head")] == ["rankd.v1.gateway.head.>"]
    for imports in (user_imports, admin_imports, node_imports):
        assert not [one for one in imports("A", "head") if ".gateway." in one.subject]
    added = set(vouching_node("A", "n1")) - set(node_imports("A", "n1"))
    assert [(one.type, one.subject) for one in added] == [("service", "rankd.v1.gateway.n1.>")]


def test_a_node_with_the_name_of_the_heads_gateway_vouches_for_nobody():
    assert vouching_node("A", "head") == node_imports("A", "head")


def test_an_invitation_reaches_its_exchange_and_nobody_else_does():
    assert [(one.type, one.subject) for one in enrolment_imports("A")] == [("service", "rankd.v1.enrol")]
    assert ("service", "rankd.v1.enrol") in {(one.type, one.subject) for one in services_exports()}
    for imports in (user_imports, admin_imports, node_imports):
        assert not any(matches(one.subject, "rankd.v1.enrol") for one in imports("A", "alice"))
