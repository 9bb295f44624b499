"""The names of models. The left column is what drivers report, by NVIDIA's and AMD's public lists."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.watcher.model_name import LONGEST, UNKNOWN, instance_name, model_name

NAMES = {
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA A100-PCIE-40GB": "a100",
    "NVIDIA A100 80GB PCIe": "a100",
    "A100-SXM4-40GB": "a100",
    "NVIDIA A800-SXM4-80GB": "a800",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A2": "a2",
    "NVIDIA H100 PCIe": "h100",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 NVL": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA H200 NVL": "h200",
    "NVIDIA H800": "h800",
    "NVIDIA H20": "h20",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA GH200 144G HBM3e": "gh200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "Tesla V100-SXM2-32GB": "v100",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla V100-PCIE-32GB": "v100",
    "Tesla V100-DGXS-32GB": "v100",
    "Tesla V100S-PCIE-32GB": "v100s",
    "Tesla P100-SXM2-16GB": "p100",
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla P40": "p40",
    "Tesla T4": "t4",
    "Tesla K80": "k80",
    "NVIDIA GeForce GTX 1080 Ti": "gtx1080-ti",
    "GeForce GTX 1080 Ti": "gtx1080-ti",
    "NVIDIA GeForce RTX 2080 Ti": "rtx2080-ti",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx3090-ti",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx4070-ti-super",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "rtx4090-laptop",
    "NVIDIA GeForce RTX 5090": "rtx5090",
    "NVIDIA RTX A4000": "a4000",
    "NVIDIA RTX A5000": "a5000",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA RTX 4000 Ada Generation": "rtx4000-ada",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-blackwell",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-blackwell",
    "Quadro RTX 6000": "quadro-rtx6000",
    "Quadro RTX 8000": "quadro-rtx8000",
    "Quadro P6000": "quadro-p6000",
    "Quadro GV100": "quadro-gv100",
    "NVIDIA TITAN RTX": "titan-rtx",
    "NVIDIA TITAN V": "titan-v",
    "NVIDIA TITAN Xp": "titan-xp",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI250X / MI250": "mi250x-mi250",
    "AMD INSTINCT MI250 (MCM) OAM AC MBA": "mi250-ac-mba",
    "AMD Instinct™ MI210": "mi210",
    "AMD Radeon (TM) Pro VII": "pro-vii",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx",
}


@pytest.mark.parametrize("vendors", NAMES)
def test_a_model_is_named_by_the_rule(vendors):
    assert model_name(vendors) == NAMES[vendors]


@given(st.text(max_size=200))
def test_every_name_gives_one_that_jobs_can_ask_for(text):
    name = model_name(text)
    assert re.fullmatch(r"[a-z0-9._-]+", name)
    assert len(name) <= LONGEST


def test_a_card_without_a_name_has_one():
    assert model_name("NVIDIA") == model_name("") == UNKNOWN


PROFILES = {(1, 9856): "1g.10gb", (1, 4864): "1g.5gb", (2, 19968): "2g.20gb", (3, 40192): "3g.40gb"}


@pytest.mark.parametrize("measures", PROFILES)
def test_an_instance_without_a_profile_is_named_by_its_measures(measures):
    slices, mebibytes = measures
    assert instance_name("a100", "NVIDIA A100-SXM4-80GB", slices, mebibytes * 2**20) == f"a100-{PROFILES[measures]}"


@pytest.mark.parametrize("profile", ["1g.10gb", "1c.3g.40gb", "1g.10gb+me", "7g.80gb"])
def test_an_instance_is_named_as_its_profile(profile):
    name = instance_name("h100", f"NVIDIA H100 80GB HBM3 MIG {profile}", 9, 9)
    assert name == f"h100-{profile.replace('+', '.')}"
