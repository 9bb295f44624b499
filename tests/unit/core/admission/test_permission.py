"""Who may do what, cell by cell; the page about security shows the same table."""

import re
from pathlib import Path

import pytest

from rankd.core.admission.acl import Acl
from rankd.core.admission.permission import RULES, Circle, NewJob, OwnedJob, OwnedLetter, ThingsOf, check, may
from rankd.core.admission.queue_administration import AdministeredQueues
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused

SECURITY = Path(__file__).parents[4] / "docs" / "security.md"
ALICE = Submitter("alice", privileged=False)
OLGA = Submitter("olga", privileged=False, is_operator=True)
ROOT = Submitter("root", privileged=True)
QUEUE = ("default", "root.lab")
QUINN = Submitter("quinn", privileged=False, queues=AdministeredQueues(
    {QUEUE: QueueEntry(partition="default", path="root.lab", is_leaf=True, admins=Acl(users=frozenset({"quinn"})))},
    "quinn",
))  # fmt: skip
CELLS = {  # own, others', operator, in a queue that one administers, administrator
    Circle.EVERYONE: "yes yes yes yes yes",
    Circle.VIEWERS: "yes privacy privacy privacy yes",
    Circle.OWNER: "yes no no no yes",
    Circle.QUEUE: "yes no no yes yes",
    Circle.OPERATORS: "no no yes no yes",
    Circle.ADMINISTRATORS: "no no no no yes",
}


def documented():
    """The rows of the table in the docs."""
    section = SECURITY.read_text(encoding="utf-8").split("## Rights")[1].split("\n## ")[0]
    return {
        f"{verb}{more.rstrip()}": " ".join(cell.strip() for cell in cells.split("|"))
        for verb, more, cells in re.findall(r"^\| `([a-z_.]+)`([^|]*) \| (.*) \|$", section, flags=re.MULTILINE)
    }


def test_the_docs_have_the_same_table():
    assert documented() == {action: CELLS[rule.circle] for action, rule in RULES.items()}


def cell(asker, action, owner):
    of = None if RULES[action].circle in (Circle.OPERATORS, Circle.ADMINISTRATORS) else OwnedJob(7, owner, QUEUE)
    return may(asker, action, of) is None


@pytest.mark.parametrize("action", RULES)
def test_each_cell(action):
    columns = ((ALICE, "alice"), (ALICE, "bob"), (OLGA, "bob"), (QUINN, "bob"), (ROOT, "bob"))
    said = ["yes" if cell(asker, action, owner) else "no" for asker, owner in columns]
    assert said == CELLS[RULES[action].circle].replace("privacy", "yes").split()


@pytest.mark.parametrize("sees", ["counts", "own"])
@pytest.mark.parametrize("action", [action for action, rule in RULES.items() if rule.circle is Circle.VIEWERS])
def test_privacy_closes_others_jobs(action, sees):
    private = ALICE._replace(sees=sees)
    assert may(private, action, OwnedJob(7, "alice")) is None
    refusal = may(private, action, OwnedJob(7, "bob"))
    assert refusal.code == "not_owner"
    assert "bob" not in refusal.message
    assert "'bob'" in may(ALICE, "job.cancel", OwnedJob(7, "bob")).message


@pytest.mark.parametrize("action", ["report.make gap", "report.make whatif"])
def test_reports_about_all_jobs_are_closed_with_them(action):
    assert may(ALICE, action) is None
    assert may(ALICE._replace(sees="counts"), action).code == "admins_only"


@pytest.mark.parametrize(
    ("of", "code", "field", "status"),
    [
        (OwnedJob(7, "bob"), "not_owner", "id", 403),
        (ThingsOf("bob", "changing jobs"), "admins_only", "users", 403),
        (OwnedLetter(7, "bob"), "unknown_dead_letter", "ids", 400),
        (NewJob("bob"), "user_mismatch", "user", 403),
    ],
)
def test_each_kind_of_thing_has_its_refusal(of, code, field, status):
    with pytest.raises(Refused) as caught:
        check(ALICE, "job.cancel", of)
    assert (caught.value.code, caught.value.field, caught.value.status) == (code, field, status)
    check(ROOT, "job.cancel", of)
    check(ALICE._replace(user="bob"), "job.cancel", of)


def test_a_refusal_says_for_whom_it_is():
    assert "config.reload is for administrators only; 'alice' asked" in may(ALICE, "config.reload").message
    assert "node.drain is for operators and administrators; 'alice' asked" in may(ALICE, "node.drain").message
    assert "changing jobs of 'bob' is for" in may(ALICE, "job.hold", ThingsOf("bob", "changing jobs")).message
