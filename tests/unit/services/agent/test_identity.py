import pytest

from rankd.core.errors import Refused
from rankd.services.agent.identity import RunAs

OWNERS = RunAs(mode="submitter", owner="ann")


@pytest.fixture
def as_user(monkeypatch):
    """An agent that is not root's."""
    monkeypatch.setattr("rankd.services.agent.identity.os.geteuid", lambda: 1000)


@pytest.fixture
def as_root(monkeypatch):
    monkeypatch.setattr("rankd.services.agent.identity.os.geteuid", lambda: 0)


def code_of(rule: RunAs, user: str) -> str | None:
    try:
        rule.identity(user)
    except Refused as refusal:
        return refusal.code
    return None


@pytest.mark.usefixtures("as_user")
def test_an_agent_that_is_not_roots_runs_its_owners_jobs_as_itself_and_no_others():
    OWNERS.check()
    assert OWNERS.identity("ann") is None
    for user in ("bob", "root", "daemon", ""):
        assert code_of(OWNERS, user) == "owner_only"
    assert not OWNERS.gives_users_rights
    assert "jobs of other users do not run" in OWNERS.statement()


@pytest.mark.usefixtures("as_user")
def test_without_an_owner_it_needs_root():
    with pytest.raises(Refused, match="only root can"):
        RunAs(mode="submitter").check()


@pytest.mark.usefixtures("as_root")
def test_only_the_owners_jobs_run_as_root():
    owner = RunAs(mode="submitter", owner="root").identity("root")
    assert (owner.uid, owner.name) == (0, "root")
    for rule in (RunAs(mode="submitter"), OWNERS, RunAs(mode="submitter", owner="daemon")):
        assert code_of(rule, "root") == "root_refused"
    assert code_of(RunAs(mode="submitter", otherwise="root"), "nobody-of-that-name") == "root_refused"


def test_with_the_agents_rights_all_jobs_run_as_its_own_user():
    assert RunAs().identity("root") is None
    assert "jobs of all users" in RunAs().statement()
