import json

from rankd.cli.look.device_line import cell, gpus_in_use, node_line, note_held, show_devices

FREE = {
    "node": "n1",
    "index": 0,
    "id": "g0",
    "model": "a100",
    "state": "ok",
    "job": None,
    "user": None,
    "taken_by": None,
}
N1, N2, N3 = ({"name": name, "capacity": {"vcore": 8}} for name in ("n1", "n2", "n3"))


def test_a_cell_shows_the_state_and_the_holder():
    assert cell(FREE) == "[0 a100 free]"
    assert cell(FREE | {"state": "taken", "taken_by": "4711 bob"}) == "[0 a100 taken 4711 bob]"
    assert cell(FREE | {"state": "failed", "reason": "XID 79", "job": 7}) == "[0 a100 failed XID 79 job 7]"
    assert cell(FREE | {"state": "failed", "job": 17, "user": "alice"}) == "[0 a100 failed job 17 alice]"
    assert cell(FREE | {"job": 17}) == "[0 a100 job 17]"


def test_a_node_shows_how_many_gpus_are_in_use_and_which():
    node = {"name": "n1", "capacity": {"vcore": 8, "gpu": 3, "gpu:a100": 3}, "allocated": {"gpu": 3, "gpu:a100": 3}}
    nodes = [node, {"name": "n2", "capacity": {"vcore": 8}, "allocated": {}}]
    others = [FREE, FREE | {"index": 2, "state": "failed"}, FREE | {"index": 9, "state": "gone", "job": 5}]
    note_held(nodes, [FREE | {"index": 3, "job": 17}, *others, FREE | {"index": 1, "job": 4}])
    assert [gpus_in_use({"nodes": [one]}) for one in nodes] == ["2/4 (1,3; 1 failed)", ""]
    assert gpus_in_use({"nodes": nodes}) == "2/4 (1 failed)"


def test_nothing_is_free_on_a_node_that_takes_no_jobs():
    down = N1 | {"state": "down", "shown_state": "down"}
    assert node_line(down, [FREE, FREE | {"index": 1, "job": 7}]) == "[0 a100 down] [1 a100 job 7]"


def test_a_node_without_devices_counts_its_gpus():
    assert node_line(N1 | {"capacity": {"gpu": 4}}, []) == "gpu 4: counted, not assigned"
    assert node_line(N1, []) == ""


def test_devices_are_in_the_order_of_their_indices_and_other_nodes_are_left_out(capsys):
    listed = [FREE | {"index": 10, "id": "g1"}, FREE | {"index": 9, "id": "g2"}, FREE | {"node": "n2", "job": 3}]
    assert show_devices([N1, N3], listed, as_json=False, header=True) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        ["NODE", "DEVICES"],
        ["n1", "[9 a100 free] [10 a100 free]"],
    ]
    show_devices([N2], listed, as_json=True, header=True)
    assert [row["job"] for row in json.loads(capsys.readouterr().out)] == [3]
