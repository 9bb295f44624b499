"""What a job may ask of each node."""

import pytest

from rankd.core.admission.amount import SMALL_SHARE, allowed_types, asked_amounts
from rankd.core.errors import Refused
from rankd.core.model.queue import ChildTemplate, Limit, Partition, Queue
from rankd.core.model.setting import Settings


def asked(given, *, nodes=1, known=None, allow_zero_cores=True):
    return asked_amounts(given, nodes, known, allow_zero_cores=allow_zero_cores)


def test_a_job_that_names_no_cores_asks_for_one():
    assert asked({"gpu": 1}) == {"vcore": 1000, "gpu": 1}


@pytest.mark.parametrize("given", [{}, {"vcore": 0}])
def test_a_job_without_cores_gets_a_small_share_where_that_is_allowed(given):
    assert asked(given) == {"vcore": SMALL_SHARE}
    with pytest.raises(Refused) as refusal:
        asked(given, allow_zero_cores=False)
    assert refusal.value.code == "zero_cores"


@pytest.mark.parametrize(
    ("given", "known", "code", "field"),
    [
        ({"gpuu": 1}, ["vcore", "gpu"], "unknown_resource", "resources.gpuu"),
        ({"": 1}, None, "bad_resource", "resources"),
        ({"a\n": 1}, None, "bad_resource", "resources"),
        ({f"type{n}": 1 for n in range(1000)}, None, "too_many", "resources"),
        ({"gpu": 2**63}, None, "bad_quantity", "resources.gpu"),
    ],
)
def test_what_no_node_could_have_is_refused_with_its_field(given, known, code, field):
    with pytest.raises(Refused) as refusal:
        asked(given, known=known)
    assert (refusal.value.code, refusal.value.field) == (code, field)


def test_an_amount_is_checked_on_all_nodes_together():
    assert asked({"gpu": 2**50})["gpu"] == 2**50
    with pytest.raises(Refused) as refusal:
        asked({"gpu": 2**50}, nodes=2**20)
    assert refusal.value.code == "bad_quantity"


def test_every_place_that_names_a_type_allows_it():
    child = ChildTemplate(guaranteed={"t1": 1}, max={"t2": 1})
    limit = Limit(users=("*",), maxresources={"l1": 1})
    root = Queue(name="root", path="root", parent=True, max={"m": 1}, guaranteed={"g": 1}, limits=(limit,))
    tenants = Queue(name="t", path="root.t", parent=True, child_template=child)
    partition = Partition(
        root=Queue(name="root", path="root", parent=True, max=root.max, guaranteed=root.guaranteed,
                   limits=root.limits, queues=(tenants,)),
        limits=(Limit(groups=("*",), maxresources={"l2": 1}),),
    )  # fmt: skip
    found = allowed_types(Settings(), [partition], ["of_node"])
    assert {"vcore", "memory", "of_node", "m", "g", "t1", "t2", "l1", "l2"} <= found
