import pytest

from rankd.core.admission.runnable_user import stricter, unrunnable


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
    refusal = unrunnable(user, uid, rule)
    assert (refusal.code if refusal else None) == code
    if refusal:
        assert f"'{user}'" in refusal.message
        assert (refusal.field, refusal.status) == ("user", 403)


def test_where_jobs_run_as_their_users_roots_are_refused_in_any_case():
    assert [stricter(rule, as_submitters=True) for rule in ("any", "users", "known")] == ["users", "users", "known"]
    assert [stricter(rule, as_submitters=False) for rule in ("any", "users", "known")] == ["any", "users", "known"]
