import builder
import pytest

from rankd.config.simulated_site import Varied, read_nodes, simulated_site
from rankd.core.errors import Refused
from rankd.core.model.association import Association
from rankd.core.simulate.site import pool


def test_without_a_configuration_it_is_the_defaults():
    site = simulated_site(None, Varied(), pool(4))
    assert (site.priority.policy, site.scheduling.backfill, site.partitions[0].partition.name) == (
        "multifactor",
        "easy",
        "default",
    )
    assert [factor.name for factor in site.factors] == list(site.priority.weights)


def test_the_command_line_comes_before_the_configuration():
    own = builder.configuration(associations=[Association(account="physics")])
    site = simulated_site(own, Varied(policy="fcfs", backfill="strict"), pool(4))
    assert (site.priority.policy, site.scheduling.backfill) == ("fcfs", "strict")
    assert site.associations == (Association(account="physics"),) or list(site.associations) == [
        Association(account="physics")
    ]


def test_an_order_without_effect_is_refused():
    with pytest.raises(Refused, match="no effect"):
        simulated_site(None, Varied(backfill="none", backfill_order="shortest"), pool(4))


def test_nodes_are_listed_by_name_with_their_resources():
    nodes = read_nodes('{"n[01-02]": {"vcore": 64, "memory": "1Gi"}, "big": {"vcore": 128}}')
    assert [(node.name, node.capacity["vcore"]) for node in nodes] == [
        ("n01", 64_000),
        ("n02", 64_000),
        ("big", 128_000),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"n": 3}', '{"n[2-1]": {"vcore": 1}}', '{"n": {"vcore": "x"}}', '{"n": {"memory": 1}}', "{}",
             '{"n[1-2]": {"vcore": 1}, "n2": {"vcore": 1}}', '{"n[1-200000]": {"vcore": 1}}'],
)  # fmt: skip
def test_what_is_no_list_of_nodes_is_refused(text):
    with pytest.raises(Refused) as caught:
        read_nodes(text)
    assert caught.value.code == "bad_nodes"
