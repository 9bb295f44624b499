"""The contract of errors: a stable code, a status, and whether trying again can help."""

import errno

import pytest

from rankd.core import errors
from rankd.core.errors import (
    AboveLimit,
    ConfigurationError,
    Problem,
    RankdError,
    Refused,
    RoleLost,
    Unavailable,
    UnknownOutcome,
    admins_only,
    usable,
)


def test_only_what_is_unavailable_or_above_a_limit_may_be_tried_again():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RankdError)}
    assert {kind for kind in kinds if kind.retryable} == {Unavailable, UnknownOutcome, AboveLimit, RoleLost}
    assert [kind("c", "m").status for kind in (Refused, AboveLimit, Unavailable)] == [400, 429, 503]


def test_a_problem_is_printed_as_compilers_print_places():
    problem = Problem(file="queues.yaml", line=12, path="partitions[0]", message="wrong")
    assert str(problem) == "queues.yaml:12: partitions[0]: wrong"
    assert str(Problem(path="", message="wrong")) == "wrong"


def test_a_configuration_error_says_all_of_its_problems():
    error = ConfigurationError([Problem(path="a", message="one"), Problem(path="b", message="two")])
    assert str(error) == "a: one\nb: two"


def test_the_refusal_for_administrators_names_what_and_who():
    error = admins_only("draining a node", "ann")
    assert (error.code, error.status) == ("admins_only", 403)
    assert error.message.startswith("draining a node is for administrators only; 'ann' asked")


def test_a_path_that_cannot_be_used_is_refused_and_a_full_disk_is_not():
    with pytest.raises(Refused, match=r"/none can't be used: No such file") as refusal, usable("/none", "state"):
        raise OSError(errno.ENOENT, "No such file or directory", "/none")
    assert (refusal.value.code, refusal.value.field) == ("bad_path", "state")
    with pytest.raises(OSError, match="full"), usable("/none", "state"):
        raise OSError(errno.ENOSPC, "full")
