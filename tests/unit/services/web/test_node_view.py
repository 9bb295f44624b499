"""The cells of a node's cores: whose they are."""

from hypothesis import given
from hypothesis import strategies as st

from rankd.services.web.node_view import CELLS, _place, blocks


def node(cores, used):
    return {"capacity": {"vcore": cores}, "allocated": {"vcore": used}}


def job(id_, cores, **fields):
    return {"id": id_, "resources": {"vcore": cores}, **fields}


def shown(found):
    return [(block.cells, block.job and block.job["id"], block.is_used) for block in found]


def test_each_job_has_its_cells_and_the_rest_is_free():
    assert shown(blocks(node(8, 7), [job(1, 6), job(2, 1)])) == [(6, 1, True), (1, 2, True), (1, None, False)]


def test_cores_of_jobs_that_are_not_shown_are_in_use_all_the_same():
    assert shown(blocks(node(8, 6), [job(1, 2)])) == [(2, 1, True), (4, None, True), (2, None, False)]


def test_an_exclusive_job_has_the_whole_node():
    assert shown(blocks(node(8, 8), [job(1, 1, exclusive=True)])) == [(8, 1, True)]


def test_a_large_node_in_use_has_at_least_one_cell_in_use():
    assert shown(blocks(node(1024, 1), [job(1, 1)])) == [(1, None, True), (CELLS - 1, None, False)]


@given(st.integers(0, 2_000), st.lists(st.integers(0, 300), max_size=60))
def test_the_cells_are_always_those_of_the_node(cores, jobs):
    used = min(cores, sum(jobs))
    found = blocks(node(cores, used), [job(place, amount) for place, amount in enumerate(jobs)])
    assert sum(block.cells for block in found) == min(CELLS, max(1, cores))
    assert all(block.cells > 0 for block in found)
    assert any(block.is_used for block in found) == (used > 0)


def test_devices_are_listed_by_their_numbers():
    devices = [{"type": "gpu", "index": index} for index in ("10", "2", "0", "x")] + [{"type": "fpga", "index": 3}]
    assert [one["index"] for one in sorted(devices, key=_place)] == [3, "0", "x", "2", "10"]
