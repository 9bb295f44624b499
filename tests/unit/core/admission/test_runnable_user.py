import pytest

from rankd.core.admission.runnable_user import Candidate, LocalRights, unrunnable

ROOTS = LocalRights("root", is_root=True)
ANNS = LocalRights("ann", is_root=False)


def code_of(refusal):
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("user", "uid", "rule", "code"),
    [
        ("root", 0, "any", None),
        ("root", 0, "users", "root_refused"),
        ("toor", 0, "users", "root_refused"),
        ("root", None, "users", "root_refused"),
        ("alice", 1000, "users", None),
        ("stranger", None, "users", None),
        ("alice", 1000, "known", None),
        ("stranger", None, "known", "no_such_user"),
        ("root", 0, "known", "root_refused"),
    ],
)
def test_whose_jobs_are_refused(user, uid, rule, code):
    refusal = unrunnable(Candidate(user, uid), rule)
    assert code_of(refusal) == code
    if refusal:
        assert f"'{user}'" in refusal.message
        assert (refusal.field, refusal.status) == ("user", 403)


@pytest.mark.parametrize("rule", ["any", "users", "known"])
@pytest.mark.parametrize(
    ("who", "local", "code"),
    [
        (Candidate("root", 0), ROOTS, "root_refused"),
        (Candidate("root", 0, is_at_head=True), ROOTS, None),
        (Candidate("toor", 0, is_at_head=True), ROOTS, "root_refused"),
        (Candidate("toor", 0, is_at_head=True), LocalRights("toor", is_root=True), None),
        (Candidate("root", 0, is_at_head=True), LocalRights("", is_root=True), "root_refused"),
        (Candidate("alice", 1000), ROOTS, None),
        (Candidate("ann", 1000), ANNS, None),
        (Candidate("bob", 1001), ANNS, "owner_only"),
        (Candidate("bob", 1001, is_at_head=True), ANNS, "owner_only"),
        (Candidate("root", 0, is_at_head=True), ANNS, "owner_only"),
    ],
)
def test_whose_jobs_run_beside_the_services(rule, who, local, code):
    assert code_of(unrunnable(who, rule, local)) == code


def test_root_is_told_how_to_submit():
    refusal = unrunnable(Candidate("root", 0), "any", ROOTS)
    assert "at its socket" in refusal.message
    assert "--admin" in refusal.message
