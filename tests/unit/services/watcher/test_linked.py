"""Which devices are linked."""

from hypothesis import given
from hypothesis import strategies as st

from rankd.services.watcher.linked import groups_of


def test_links_are_followed_over_several_devices():
    assert groups_of("abcd", [("a", "b"), ("b", "d")], {}) == {"a": 0, "b": 0, "c": 1, "d": 0}


def test_a_switch_joins_all_that_lead_to_it():
    assert groups_of("abc", [("a", "switch"), ("c", "switch")], {"b": 3}) == {"a": 0, "b": 1, "c": 0}


def test_devices_without_links_are_grouped_by_memory_node():
    assert groups_of("abcd", [], {"a": 1, "b": 0, "c": 1, "d": 0}) == {"a": 0, "b": 1, "c": 0, "d": 1}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdefXY")), max_size=12))
def test_numbers_begin_at_0_have_no_gap_and_linked_devices_share_one(links):
    groups = groups_of("abcdef", links, {})
    assert sorted(set(groups.values())) == list(range(len(set(groups.values()))))
    assert all(groups[one] == groups[other] for one, other in links if other in groups)
