"""Gres of nodes, and gres.conf."""

import pytest

from rankd.core.slurm.gres import parse_gres, read_autodetect, read_devices, read_types
from rankd.core.slurm.reading import Reading


@pytest.mark.parametrize(
    ("text", "amounts", "lost", "wrong"),
    [
        ("gpu:4", {"gpu": 4}, [], []),
        ("gpu", {"gpu": 1}, [], []),
        ("gpu:a100:4", {"gpu": 4}, [], []),
        ("gpu:a100", {"gpu": 1}, [], []),
        ("gpu:a100:4(S:0-1)", {"gpu": 4}, [], []),
        ("gpu:a100:2(S:0,1),gpu:v100:2(S:1)", {"gpu": 4}, [], []),
        (
            "gpu:gtx1080:1,gpu:kepler:1,mps:400,bandwidth:lustre:no_consume:4G",
            {"gpu": 2, "bandwidth": 2**32},
            ["mps:400"],
            [],
        ),
        ("shard:8,gpu:2", {"gpu": 2}, ["shard:8"], []),
        ("(null)", {}, [], []),
        ("", {}, [], []),
        ("gpu:-1", {}, [], ["gpu:-1"]),
        ("gpu::4", {}, [], ["gpu::4"]),
        ("gpu:a100:four", {}, [], ["gpu:a100:four"]),
        ("gpu:4x,gpu:v100:2", {"gpu": 2}, [], ["gpu:4x"]),
        ("gpu:1.5", {}, [], ["gpu:1.5"]),
        ("gpu:1g.10gb:7,gpu:3g.40gb", {"gpu": 8}, [], []),
    ],
)
def test_the_resources_of_a_node(text, amounts, lost, wrong):
    assert parse_gres(text)[:3] == (amounts, lost, wrong)


def test_what_is_not_used_up_and_models_are_told():
    assert parse_gres("gpu:A100:4(S:0-1),gpu:v100:no_consume:2,nic:no_consume:1").kept == [
        "gpu:v100:no_consume:2",
        "nic:no_consume:1",
    ]
    assert parse_gres("gpu:A100:4(S:0-1),gpu:v100:no_consume:2,gpu:1,nic:x:1").models == ["a100", "v100"]


def remarks(read, *given):
    reading = Reading("gres.conf")
    read(1, *given, reading)
    assert not reading.problems
    return [remark.message for remark in reading.remarks]


def test_types_besides_gpus_are_named():
    assert remarks(read_types, "gpu") == []
    [mps, nic] = remarks(read_types, "gpu,mps,nic")
    assert mps == "GresTypes mps: no equivalent in rankd; parts of a card (MIG) are devices"
    assert "--resources nic=NUMBER" in nic


def test_what_finds_devices_by_itself_is_the_same_here():
    for word in ("nvml", "rsmi", "nvidia"):
        assert remarks(read_autodetect, word) == []
    assert "--no-devices" in remarks(read_autodetect, "off")[0]
    assert remarks(read_autodetect, "oneapi")[0].startswith("AutoDetect=oneapi: no equivalent in rankd")


def test_files_and_links_are_named():
    fields = {"name": "gpu", "type": "a100", "file": "/dev/nvidia[0-3]", "cores": "0-31"}
    [message] = remarks(read_devices, fields)
    assert message.startswith("file=/dev/nvidia[0-3], cores=0-31: agents read this from the driver")
    assert "rankd agent --devices FILE" in message
    assert remarks(read_devices, {"name": "gpu", "count": "4"}) == []
    assert read_devices(1, {"name": "gpu", "type": "A100"}, Reading("gres.conf")) == "a100"
    assert "no equivalent in rankd for Type=a/b" in remarks(read_devices, {"name": "gpu", "type": "a/b"})[0]
    assert "Type=lustre; only GPUs have models" in remarks(read_devices, {"name": "nic", "type": "lustre"})[1]
    wrong = Reading("gres.conf")
    read_devices(3, {"name": "gpu", "count": "four"}, wrong)
    assert wrong.problems[0].line == 3
    assert "MIG" in remarks(read_devices, {"name": "mps", "count": "400"})[0]
    assert "--resources tape=NUMBER" in remarks(read_devices, {"name": "tape"})[0]
    assert "--no-devices" in remarks(read_devices, {"name": "gpu", "autodetect": "off"})[0]
