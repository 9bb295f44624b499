"""Who is at the other end of a socket, and what that user may be."""

import os
import socket

import pytest

from rankd.core.errors import Refused
from rankd.services.runtime.peer import Policy, name_of, peer_of

NOBODY = 2**31 - 7
"""A number that no machine has a name for."""


def test_the_kernel_says_who_connects():
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_of(one) == (os.getpid(), os.geteuid())


def test_the_owner_is_the_administrator_by_number_not_by_name():
    assert Policy(1000, "root").user(1000) == "root"


def test_others_are_refused_unless_it_is_shared():
    with pytest.raises(Refused, match="serves only 'ann'") as refused:
        Policy(1000, "ann").user(0)
    assert refused.value.code == "not_shared"
    assert Policy(1000, "ann", is_shared=True).user(0) == "root"


def test_a_user_without_a_name_has_its_number():
    assert name_of(NOBODY) == str(NOBODY)
    assert Policy(1000, "ann", is_shared=True).user(NOBODY) == str(NOBODY)


@pytest.mark.parametrize("name", ["root", str(NOBODY)])
def test_nobody_gets_the_administrators_name(name):
    """Its owner started rankd with $RANKD_USER=root, for example."""
    policy = Policy(1000, name, is_shared=True)
    with pytest.raises(Refused, match="is that of the administrator"):
        policy.user(0 if name == "root" else NOBODY)
