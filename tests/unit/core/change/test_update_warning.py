"""What a user is told about an update that is accepted."""

import msgspec
import pytest
from unit.core.change.test_job_update import PENDING, ROOT, decided

from rankd.core.admission.offered import Offered
from rankd.core.change.update_warning import warning_of

FIXED = PENDING._replace(fixed_priority=5)


def warning(stored=PENDING, **fields):
    offered = Offered()
    offered.learn("n1", "default", {"vcore": 4000, "memory": 2**30})
    return warning_of([decided(stored, asker=ROOT, **fields)], offered.doubt)


def test_a_size_that_no_node_has_is_named():
    assert "job 7: the job asks for" in warning(resources={"vcore": 8})
    assert "and the job needs 3" in warning(nodes=3)
    assert warning(resources={"vcore": 2}) is None


def test_a_change_of_something_else_says_nothing_about_the_size():
    assert warning(resources={"vcore": 8}, comment="x") is not None
    large = msgspec.structs.replace(PENDING.admitted.request, resources={"vcore": 8})
    assert (
        warning(PENDING._replace(admitted=msgspec.structs.replace(PENDING.admitted, request=large)), comment="x")
        is None
    )


@pytest.mark.parametrize(
    ("stored", "fields", "said"),
    [
        (FIXED, {"urgency": 20}, "job 7: its fixed priority 5 counts; its urgency 20 has no effect until"),
        (PENDING, {"urgency": 20, "fixed_priority": 9}, "its fixed priority 9 counts; its urgency 20 has no effect"),
        (FIXED, {"urgency": 31}, "its urgency 31 puts it before all others; its fixed priority 5 has no effect"),
        (FIXED, {"urgency": 0}, "its urgency 0 holds it; its fixed priority 5 counts once it is released"),
        (PENDING, {"urgency": 20}, None),
        (PENDING, {"fixed_priority": 5}, None),
        (FIXED, {"fixed_priority": None, "urgency": 20}, None),
        (FIXED, {"comment": "x"}, None),
    ],
)
def test_a_fixed_priority_and_an_urgency_are_said_to_contradict(stored, fields, said):
    found = warning(stored, **fields)
    assert found is None if said is None else said in found
