"""Who was invited and given credentials: one use of an invitation, and the reason for each refusal."""

import pytest

from rankd.core.errors import Refused
from rankd.identity.key import KeyKind, derive, new_key
from rankd.identity.register import (
    KEPT_S,
    MOST_OPEN,
    Invitation,
    Register,
    admitted,
    find_invitation,
    given,
    invited,
    is_public_key,
    open_invitations,
    redeemed,
    role_now,
    withdrawn,
)
from rankd.identity.site import Role

NOW = 1_700_000_000
ONE, TWO = (derive(bytes(32), KeyKind.USER, name).public for name in ("one", "two"))
FOR_ALICE = Invitation(role=Role.USER, name="alice", made_at=NOW, expires_at=NOW + 60)


def nobody(_role, _name):
    return None


def asked(register, key=ONE, now=NOW + 1.0, digest="d", revoked_at=nobody):
    return find_invitation(register, digest, key, now, revoked_at)


def refusal(*arguments, **named):
    with pytest.raises(Refused) as refused:
        asked(*arguments, **named)
    return refused.value


@pytest.fixture
def register():
    return invited(Register(), "d", FOR_ALICE, NOW)


def test_whoever_is_invited_is_listed_and_has_no_credentials_yet(register):
    member = register.member(Role.USER, "alice")
    assert (member.role, member.given_at, member.until) == (Role.USER, None, None)
    assert open_invitations(register, NOW, nobody) == [FOR_ALICE]


def test_an_invitation_is_used_once_and_by_the_same_key_again(register):
    assert asked(register) == FOR_ALICE
    spent = redeemed(register, "d", ONE, NOW + 1, NOW + 1000)
    assert asked(spent).used_by == ONE
    assert asked(spent, now=NOW + 5_000).used_by == ONE  # its answer may have been lost
    refused = refusal(spent, key=TWO)
    assert refused.code == "used_token"
    assert "was used at 2023-11-14T22:13:21Z" in refused.message
    assert open_invitations(spent, NOW + 1, nobody) == []
    assert redeemed(spent, "d", ONE, NOW + 50, NOW + 9_000) == spent


def test_who_used_it_is_listed_with_the_end_of_the_credentials(register):
    member = redeemed(register, "d", ONE, NOW + 1, NOW + 1000).member(Role.USER, "alice")
    assert (member.given_at, member.until) == (NOW + 1, NOW + 1000)


def test_another_secret_is_unknown_whatever_is_open(register):
    assert refusal(register, digest="e").code == "bad_token"
    assert refusal(Register()).message == refusal(register, digest="e").message


@pytest.mark.parametrize(("now", "ends"), [(NOW + 59.9, False), (NOW + 60, True), (NOW + 10_000, True)])
def test_an_invitation_ends_when_it_is_said(register, now, ends):
    if ends:
        assert refusal(register, now=now).code == "expired_token"
    else:
        assert asked(register, now=now) == FOR_ALICE
    assert bool(open_invitations(register, now, nobody)) is not ends


@pytest.mark.parametrize(("at", "ends"), [(NOW - 1, False), (NOW, True), (NOW + 10, True)])
def test_a_revocation_ends_invitations_that_were_made_before(register, at, ends):
    def revoked_at(role, name):
        return at if (role, name) == (Role.USER, "alice") else None

    if ends:
        assert refusal(register, revoked_at=revoked_at).code == "revoked_token"
        spent = redeemed(register, "d", ONE, NOW, NOW + 9)
        assert refusal(spent, revoked_at=revoked_at).code == "revoked_token"
    else:
        assert asked(register, revoked_at=revoked_at) == FOR_ALICE
    assert bool(open_invitations(register, NOW, revoked_at)) is not ends


@pytest.mark.parametrize("key", ["", "U", "A" + ONE[1:], ONE + "A", ONE[:-1], ONE.lower(), "x" * 5_000, ONE + "\n"])
def test_what_is_no_public_key_is_refused_before_anything_is_said(register, key):
    assert refusal(register, key=key).code == "bad_key"
    assert refusal(register, key=key, digest="e").code == "bad_key"


def test_every_key_of_a_user_is_one():
    assert all(is_public_key(new_key(KeyKind.USER).public) for _ in range(100))
    assert not is_public_key(new_key(KeyKind.ACCOUNT).public)
    assert not is_public_key(new_key(KeyKind.USER).seed)


def test_the_role_is_that_of_the_member_when_it_is_used(register):
    assert role_now(register, FOR_ALICE) is Role.USER
    promoted = admitted(register, Role.ADMIN, "alice")
    assert role_now(promoted, FOR_ALICE) is Role.ADMIN
    assert redeemed(promoted, "d", ONE, NOW, NOW + 9).role_of("alice") is Role.ADMIN


def test_a_node_and_a_user_of_one_name_are_two():
    register = admitted(admitted(Register(), Role.NODE, "a"), Role.ADMIN, "a")
    assert register.member(Role.NODE, "a").role is Role.NODE
    assert register.member(Role.USER, "a").role is Role.ADMIN
    assert register.role_of("b") is Role.USER


def test_a_change_of_role_keeps_what_was_given():
    register = admitted(given(Register(), Role.USER, "bob", NOW, NOW + 9), Role.ADMIN, "bob")
    assert (register.role_of("bob"), register.member(Role.USER, "bob").until) == (Role.ADMIN, NOW + 9)


@pytest.mark.parametrize(
    ("ends", "until"), [([5, 9], 9), ([9, 5], 9), ([None, 5], None), ([5, None], None), ([5], 5), ([None], None)]
)
def test_the_last_end_of_several_credentials_is_listed(ends, until):
    register = Register()
    for end in ends:
        register = given(register, Role.USER, "bob", NOW, end)
    assert register.member(Role.USER, "bob").until == until


def test_who_is_revoked_has_no_credentials_and_is_no_administrator():
    register = admitted(given(Register(), Role.ADMIN, "alice", NOW, None), Role.NODE, "alice")
    after = withdrawn(register, Role.USER, "alice")
    assert after.member(Role.NODE, "alice") == register.member(Role.NODE, "alice")
    assert after.member(Role.USER, "alice").given_at is None
    assert after.role_of("alice") is Role.USER
    assert withdrawn(Register(), Role.USER, "nobody") == Register()


def test_what_ended_long_ago_is_forgotten_and_what_ended_now_is_not(register):
    later = Invitation(role=Role.NODE, name="n1", made_at=NOW, expires_at=NOW + 10**6)
    assert set(invited(register, "e", later, NOW + 61).invitations) == {"d", "e"}
    assert set(invited(register, "e", later, NOW + 60 + KEPT_S).invitations) == {"e"}


def test_the_number_of_open_invitations_is_bounded_and_used_ones_do_not_count(register):
    for number in range(MOST_OPEN - 1):
        register = invited(register, f"d{number}", FOR_ALICE, NOW)
    with pytest.raises(Refused) as refused:
        invited(register, "more", FOR_ALICE, NOW)
    assert refused.value.code == "too_many"
    spent = redeemed(register, "d", ONE, NOW, NOW + 9)
    assert "more" in invited(spent, "more", FOR_ALICE, NOW).invitations
