"""``--gres`` and ``--gpus`` in Slurm's forms, as amounts per node."""

import argparse
import re

import pytest

from rankd.client.batch.generic_resource import generic_amounts, parse_all_gres, parse_gpus, parse_gres
from rankd.core.errors import Refused


def test_types_of_resources_other_than_gpus_are_said_to_be_labels():
    with pytest.raises(Refused, match="fpga:2 and --constraint 'fpga=u250'"):
        parse_gres("fpga:u250:2")
    with pytest.raises(Refused, match="fpga:1 and --constraint 'fpga=u250'"):
        parse_gres("fpga:u250")


def test_models_of_gpus_are_asked_for_by_name():
    assert parse_gres("gres/gpu:A100:2") == ("gpu:a100", 2)
    assert parse_gres("gpu:3090:2") == ("gpu:3090", 2)
    assert parse_gpus("a100:2,v100:1", "gpus") == {"gpu:a100": 2, "gpu:v100": 1}


@pytest.mark.parametrize("text", ["x", "a100", "a100:", ":2", "a:b:2", "", "-1", "a100:-1", "²", "1" * 5000])
def test_a_wrong_number_of_gpus_is_answered_with_the_form(text):
    with pytest.raises(Refused, match="is not a number of GPUs; write 2, or MODEL:2 such as a100:2") as caught:
        parse_gpus(text, "gpus")
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "text",
    ["gpu:", "gpu::2", "gpu:a100:", "gpu:a100:2:3", "gpu:a:b", "gpu:-1", "gpu:1.5", "gpu:²", ":2", "gpu:" + "1" * 5000],
)
def test_a_wrong_gres_is_answered_with_the_forms(text):
    with pytest.raises(Refused, match="write gpu, gpu:2, gpu:a100 or gpu:a100:2, or NAME:COUNT for others") as caught:
        parse_gres(text)
    assert (caught.value.code, caught.value.field) == ("usage", "gres")


@pytest.mark.parametrize("text", ["licence:", "licence:-1", "licence:a:b", "licence:1.5"])
def test_a_wrong_count_of_another_resource_is_answered_with_its_form(text):
    with pytest.raises(Refused, match="the count is a whole number"):
        parse_gres(text)


def asked(nodes=1, **options):
    given = dict.fromkeys(("gres", "gpus", "gpus_per_node", "gpus_per_task")) | options
    return generic_amounts(argparse.Namespace(**given), nodes, 2)


def test_options_that_name_the_same_gpus_agree():
    assert asked(nodes=2, gpus="4", gres="gpu:2,fpga:1") == {"gpu": 2, "fpga": 1}
    assert asked(gpus_per_node="a100:2", gpus_per_task="a100:1") == {"gpu:a100": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": "2", "gres": "gpu:1"}, "--gres (gpu 1) and --gpus (gpu 2) ask for different GPUs per node"),
        ({"gpus_per_node": "1", "gres": "gpu:a100:1"}, "--gres (gpu:a100 1) and --gpus-per-node (gpu 1) ask"),
        ({"gpus_per_task": "1", "gpus": "3"}, "--gpus-per-task (gpu 2) and --gpus (gpu 3) ask"),
    ],
)
def test_options_that_contradict_each_other_are_refused_by_name(options, message):
    with pytest.raises(Refused, match=re.escape(message)):
        asked(**options)


def test_a_list_adds_up_and_none_asks_for_nothing():
    assert parse_all_gres("gpu:a100,gpu:a100:2, licence") == {"gpu:a100": 3, "licence": 1}
    assert parse_all_gres("none") == parse_all_gres("") == parse_all_gres(",") == {}
