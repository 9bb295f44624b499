"""Generic resources of nodes: ``Gres=gpu:a100:4(S:0-1),lic:3``, and the lines of ``gres.conf``.

Source: slurm.conf(5) (GresTypes, Gres) and gres.conf(5) of Slurm 24.11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.model.device import GPU, is_model
from rankd.core.slurm.reading import NOT_SET, Reading

_ITEMS = re.compile(r",(?![^(]*\))")
"""The commas between resources, not those of ``(S:0,1)``."""
_ITEM = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(?P<types>(:[A-Za-z0-9_][^:]*)*?)(:(?P<count>[0-9]{1,15})(?P<suffix>[KMGTP]?))?"
)
_LIKE_COUNT = re.compile(r"[0-9]+([.,][0-9]+)?[A-Za-z]?")
"""A word that is no model, such as ``1g.10gb``."""
_PLACES = re.compile(r"\([^()]*\)$")
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SHARED = ":no_consume"
_COUNT = re.compile(r"[0-9]{1,15}[KMGTP]?", re.IGNORECASE)
_PARTS_OF_GPUS = frozenset({"mps", "shard"})
_FOUND_BY_AGENTS = frozenset({"nvml", "nvidia", "rsmi"})
_DESCRIBED = ("file", "multiplefiles", "cores", "links", "flags")


class NodeGres(NamedTuple):
    """The resources of a node: the number of each, and the entries that are not converted.

    ``lost``: rankd has no equivalent. ``wrong``: Slurm could not read it either. ``kept``: jobs use it up in rankd.
    ``models``: of the GPUs, in lower case.
    """

    amounts: dict[str, int]
    lost: list[str]
    wrong: list[str]
    kept: list[str]
    models: list[str]


def parse_gres(text: str) -> NodeGres:
    """``Gres=`` of a node.

    Types are left out: a node of rankd's has as many ``gpu`` as there are of all types, and its agent names the models.

    >>> parse_gres("gpu:a100:4(S:0-1),gpu:v100:2,nic:1,mps:400,tape:x")
    NodeGres(amounts={'gpu': 6, 'nic': 1, 'tape': 1}, lost=['mps:400'], wrong=[], kept=[], models=['a100', 'v100'])
    """
    node = NodeGres({}, [], [], [], [])
    for item in (piece.strip() for piece in _ITEMS.split(text) if piece.strip().lower() not in NOT_SET):
        found = _ITEM.fullmatch(_PLACES.sub("", item).replace(_SHARED, ""))
        name = found["name"].lower() if found else item.partition(":")[0].lower()
        if name in _PARTS_OF_GPUS:
            node.lost.append(item)
        elif found is None or _has_bad_count(found["types"], found["count"]):
            node.wrong.append(item)
        else:
            count = 1 if found["count"] is None else int(found["count"]) * _FACTORS[found["suffix"]]
            node.amounts[name] = node.amounts.get(name, 0) + count
            if _SHARED in item:
                node.kept.append(item)
            model = found["types"].removeprefix(":").lower()
            if name == GPU and is_model(model):
                node.models.append(model)
    return node


def _has_bad_count(types: str, count: str | None) -> bool:
    """Whether the last part of an entry without a count was meant to be one: ``gpu:a100:four``, ``gpu:4x``."""
    words = types.removeprefix(":").split(":")
    return count is None and (len(words) > 1 or _LIKE_COUNT.fullmatch(words[0]) is not None)


def read_types(line: int, value: str, reading: Reading) -> None:
    """``GresTypes``: GPUs are known. Parts of GPUs have no equivalent, and nodes may offer other resources."""
    for name in (word.strip().lower() for word in value.split(",")):
        if name in NOT_SET or name == GPU:
            continue
        if name in _PARTS_OF_GPUS:
            reading.remark(line, f"GresTypes {name}: no equivalent in rankd; parts of a card (MIG) are devices")
        else:
            reading.remark(line, f"GresTypes {name}: agents offer it with --resources {name}=NUMBER, as an amount")


def read_autodetect(line: int, value: str, reading: Reading) -> None:
    """``AutoDetect``: agents always look for NVIDIA's and AMD's cards."""
    for word in re.split(r"[,\s]+", value.strip().lower()):
        if word == "off":
            reading.remark(
                line, "AutoDetect=off: agents look for GPUs; start them with --no-devices where they should not"
            )
        elif word and word not in _FOUND_BY_AGENTS:
            reading.remark(
                line, f"AutoDetect={word}: no equivalent in rankd; list the devices with `rankd agent --devices`"
            )


def read_devices(line: int, fields: Mapping[str, str], reading: Reading) -> str | None:
    """A line of ``gres.conf``. Files, cores and links are those that the driver names to the agent.

    Returns:
        The model of the GPUs in lower case; None if the line names none that rankd could have.
    """
    name = fields.get("name", "").lower()
    if name in _PARTS_OF_GPUS:
        reading.remark(line, f"gres.conf {name}: no equivalent in rankd; parts of a card (MIG) are devices")
    elif name == GPU and (given := [f"{key}={fields[key]}" for key in _DESCRIBED if fields.get(key)]):
        message = (
            f"{', '.join(given)}: agents read this from the driver; without a driver, `rankd agent --devices FILE`"
        )
        reading.remark(line, f"{message} lists the devices")
    elif name != GPU:
        reading.remark(line, f"gres.conf {name}: agents offer it with --resources {name}=NUMBER, as an amount")
    if fields.get("count") and not _COUNT.fullmatch(fields["count"]):
        reading.refuse(line, f"gres.conf {name}: Count={fields['count'][:60]} is not a whole number")
    if fields.get("autodetect"):
        read_autodetect(line, fields["autodetect"], reading)
    return _model_of(line, name, fields.get("type", ""), reading)


def _model_of(line: int, name: str, type_: str, reading: Reading) -> str | None:
    if not type_ or name in _PARTS_OF_GPUS:
        return None
    if name == GPU and is_model(type_.lower()):
        return type_.lower()
    advice = "agents name models of GPUs themselves" if name == GPU else "only GPUs have models; give nodes a label"
    reading.remark(line, f"gres.conf {name}: no equivalent in rankd for Type={type_[:60]}; {advice}")
    return None
