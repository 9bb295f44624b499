import pytest

from rankd.client.asker import LONGEST_USER, Asker, asker_at
from rankd.client.place import Place
from rankd.core.errors import Refused

NOWHERE = Place(None, None, None)


@pytest.fixture(autouse=True)
def nobody_named(monkeypatch):
    monkeypatch.delenv("RANKD_USER", raising=False)


def test_a_name_that_is_given_counts_before_the_environment_the_url_and_the_login(monkeypatch):
    there = Place(None, "nats://carol:secret@broker:4222", None)
    assert asker_at(there, None, admin=False).user == "carol"
    monkeypatch.setenv("RANKD_USER", "bob")
    assert asker_at(there, None, admin=False).user == "bob"
    assert asker_at(there, "alice", admin=False).user == "alice"


def test_rights_are_an_administrators_only_if_asked_for():
    assert asker_at(NOWHERE, "alice", admin=False).subject("job.list") == "rankd.v1.user.alice.job.list"
    assert asker_at(NOWHERE, "alice", admin=True).subject("job.list") == "rankd.v1.admin.alice.job.list"
    claiming = Asker("alice", admin=True, is_claim=True)
    assert claiming.subject("job.list") == "rankd.v1.user.alice.as-admin.job.list"


@pytest.mark.parametrize(("name", "code"), [("", "usage"), ("a" * (LONGEST_USER + 1), "bad_user"), ("a\n", "bad_user")])
def test_an_unusable_name_is_refused_not_replaced(name, code):
    with pytest.raises(Refused) as error:
        asker_at(NOWHERE, name, admin=False)
    assert error.value.code == code
