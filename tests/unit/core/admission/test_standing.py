"""With which rights somebody asks: by the subject, and by the configuration in force."""

import msgspec
import pytest

from rankd.core.admission.standing import Said, has_rights, standing
from rankd.core.errors import Refused
from rankd.core.model.setting import AdmissionSettings, PrivacySettings, Settings

SETTINGS = Settings(
    admission=AdmissionSettings(admins=["adam"], admin_groups=["wheel"], operators=["olga"], operator_groups=["night"]),
    privacy=PrivacySettings(jobs="own"),
)
GROUPS = {"wilma": ("staff", "wheel"), "nick": ("night",)}


def asks(user, verb="job.cancel", *, settings=SETTINGS, **said):
    return standing(Said(user, **{"is_administrator": False, **said}), verb, settings, GROUPS)


def is_refused(user, verb):
    with pytest.raises(Refused) as caught:
        asks(user, verb, claims=True)
    assert (caught.value.code, caught.value.status) == ("admins_only", 403)
    assert f"'{user}' is not an administrator here" in caught.value.message
    return True


def test_the_brokers_word_is_enough():
    assert asks("carol", is_administrator=True) == ("carol", True, None, False, "all", None)


@pytest.mark.parametrize("user", ["adam", "wilma"])
def test_a_user_of_the_list_or_its_groups_is_an_administrator_who_says_so(user):
    assert asks(user, claims=True) == (user, True, None, False, "all", None)
    assert asks(user) == (user, False, None, False, "own", None)


@pytest.mark.parametrize("user", ["alice", "olga", "nick", "wheel", ""])
def test_nobody_else_is(user):
    assert is_refused(user, "job.cancel")
    assert is_refused(user, "config.reload")
    assert asks(user).privileged is False


@pytest.mark.parametrize("user", ["olga", "nick"])
@pytest.mark.parametrize("claims", [False, True])
def test_an_operator_acts_on_nodes_with_and_without_saying_so(user, claims):
    assert asks(user, "node.drain", claims=claims) == (user, False, None, True, "own", None)


def test_an_ordinary_user_is_no_operator():
    assert not asks("alice", "node.drain").is_operator
    assert is_refused("alice", "node.drain")


def test_a_name_that_is_removed_has_no_more_rights():
    without = msgspec.structs.replace(SETTINGS, admission=AdmissionSettings())
    assert asks("adam", claims=True).privileged
    with pytest.raises(Refused):
        asks("adam", claims=True, settings=without)
    assert not asks("olga", "node.drain", settings=without).is_operator


def test_who_has_more_rights_than_others_is_not_for_gateways_of_nodes_to_name():
    users = ("adam", "wilma", "olga", "nick", "alice")
    assert [has_rights(user, SETTINGS, GROUPS) for user in users] == [True, True, True, True, False]


def test_the_gateway_that_vouches_is_kept():
    assert asks("alice", via="head") == ("alice", False, "head", False, "own", None)
