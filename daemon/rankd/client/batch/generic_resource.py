"""Resources besides cores and memory, in Slurm's forms: ``--gres``, ``--gpus`` and the options of GPUs per something.

Pure. Slurm writes ``gpu``, ``gpu:2``, ``gpu:a100`` and ``gpu:a100:2``. A count that is left out is 1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.near_name import cut

if TYPE_CHECKING:
    import argparse

GPU = "gpu"
"""As in :mod:`rankd.core.model.device`, whose import takes 20 ms: a submission does without it."""
_COUNT = r"[0-9]{1,9}"
_NO_GRES = "none"
_FORM_OF_GPUS = "write 2, or MODEL:2 such as a100:2"
_FORMS = "write gpu, gpu:2, gpu:a100 or gpu:a100:2, or NAME:COUNT for others"


def generic_amounts(arguments: argparse.Namespace, nodes: int, tasks_on_node: int) -> dict[str, int]:
    """The amounts per node that ``--gres`` and the options of GPUs ask for."""
    asked = {"gres": parse_all_gres(arguments.gres or "")}
    if arguments.gpus_per_node is not None:
        asked["gpus_per_node"] = parse_gpus(arguments.gpus_per_node, "gpus_per_node")
    if arguments.gpus_per_task is not None:
        of_task = parse_gpus(arguments.gpus_per_task, "gpus_per_task")
        asked["gpus_per_task"] = {kind: number * tasks_on_node for kind, number in of_task.items()}
    if arguments.gpus is not None:
        asked["gpus"] = _shared(parse_gpus(arguments.gpus, "gpus"), nodes)
    _check_agree(asked)
    return {kind: number for amounts in asked.values() for kind, number in amounts.items()}


def changed_amounts(
    gres: str | None, gpus_per_node: str | None, of_job: tuple[str | None, int] | None = None
) -> dict[str, int]:
    """What an update asks for per node. GPUs are all that the job then asks for: ``gpu: 0`` removes those of before.

    ``of_job``: the GPUs of the whole job, and the number of its nodes.

    >>> changed_amounts("gpu:a100:2,fpga:1", None), changed_amounts("gpu:a100:0", None), changed_amounts(None, "0")
    ({'gpu:a100': 2, 'fpga': 1}, {'gpu': 0}, {'gpu': 0})
    """
    asked = {"gres": parse_all_gres(gres or "")}
    if gpus_per_node is not None:
        asked["gpus_per_node"] = parse_gpus(gpus_per_node, "gpus_per_node")
    if of_job is not None and of_job[0] is not None:
        asked["gpus"] = _shared(parse_gpus(of_job[0], "gpus"), of_job[1])
    _check_agree(asked)
    amounts = {kind: number for own in asked.values() for kind, number in own.items()}
    gpus = {kind: number for kind, number in amounts.items() if is_device_kind(kind)}
    is_about_gpus = bool(gpus) or (gres or "").strip().lower() == _NO_GRES
    if is_about_gpus and not any(gpus.values()):
        gpus = {GPU: 0}
    return {kind: number for kind, number in gpus.items() if number or kind == GPU} | {
        kind: number for kind, number in amounts.items() if not is_device_kind(kind)
    }


def is_device_kind(kind: str) -> bool:
    """Whether the type is ``gpu`` or ``gpu:MODEL``."""
    return kind == GPU or kind.startswith(f"{GPU}:")


def _shared(amounts: dict[str, int], nodes: int) -> dict[str, int]:
    """The amounts of the whole job, per node."""
    for number in amounts.values():
        if number % nodes:
            message = f"{number} GPUs can't be shared evenly by {nodes} nodes; give --gpus-per-node"
            raise Refused("usage", message, "gpus")
    return {kind: number // nodes for kind, number in amounts.items()}


def _check_agree(asked: dict[str, dict[str, int]]) -> None:
    """Check that the options that name GPUs mean the same GPUs per node.

    Raises:
        Refused: ``usage``.
    """
    of_gpus = {
        option: own
        for option, amounts in asked.items()
        if (own := {kind: number for kind, number in amounts.items() if is_device_kind(kind)})
    }
    (first, amounts), *others = of_gpus.items() or [("", {})]
    for option, other in others:
        if other != amounts:
            said = " and ".join(
                f"--{name.replace('_', '-')} ({_in_words(of)})" for name, of in ((first, amounts), (option, other))
            )
            raise Refused("usage", f"{said} ask for different GPUs per node; give one of them", option)


def _in_words(amounts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in amounts.items())


def parse_gpus(text: str, field: str) -> dict[str, int]:
    """``2``: of any model. ``a100:2`` or ``a100:2,v100:1``: of these models.

    >>> parse_gpus("2", "gpus"), parse_gpus("A100:2,v100:1", "gpus")
    ({'gpu': 2}, {'gpu:a100': 2, 'gpu:v100': 1})
    """
    amounts: dict[str, int] = {}
    for part in text.split(","):
        model, colon, number = part.strip().rpartition(":")
        if not re.fullmatch(_COUNT, number) or bool(colon) != bool(model) or ":" in model:
            raise Refused("usage", f"'{cut(text)}' is not a number of GPUs; {_FORM_OF_GPUS}", field)
        kind = f"{GPU}:{model.lower()}" if model else GPU
        amounts[kind] = amounts.get(kind, 0) + int(number)
    return amounts


def parse_all_gres(text: str) -> dict[str, int]:
    """The list of ``--gres``. A resource that is named twice is added up. ``none`` asks for nothing.

    >>> parse_all_gres("gpu:a100,gpu:v100:2,licence"), parse_all_gres("none")
    ({'gpu:a100': 1, 'gpu:v100': 2, 'licence': 1}, {})
    """
    amounts: dict[str, int] = {}
    for item in text.split(","):
        if item.strip() and text.strip().lower() != _NO_GRES:
            kind, number = parse_gres(item)
            amounts[kind] = amounts.get(kind, 0) + number
    return amounts


def parse_gres(text: str) -> tuple[str, int]:
    """One resource, per node.

    >>> [parse_gres(t) for t in ("gpu", "gpu:2", "gpu:a100", "gpu:a100:2")]
    [('gpu', 1), ('gpu', 2), ('gpu:a100', 1), ('gpu:a100', 2)]
    """
    name, *rest = text.strip().removeprefix("gres/").split(":")
    counts = [rest.pop()] if rest and re.fullmatch(_COUNT, rest[-1]) else []
    number = int(counts[0]) if counts else 1
    if name != GPU and rest:
        raise _not_of_gpus(text, name, rest, number)
    if not name or len(rest) > 1 or "" in rest or (rest and not counts and _looks_like_count(rest[0])):
        raise Refused("usage", f"'{cut(text)}' is not a resource; {_FORMS}", "gres")
    return (f"{GPU}:{rest[0].lower()}" if rest else name), number


def _looks_like_count(word: str) -> bool:
    """Whether a wrong count stands where a model belongs: ``gpu:-1``, ``gpu:1.5``, ``gpu:²``."""
    return word.isnumeric() or re.fullmatch(r"[-+]?\d[\d.]*", word) is not None


def _not_of_gpus(text: str, name: str, rest: list[str], number: int) -> Refused:
    if len(rest) == 1 and rest[0][:1].isalpha():
        instead = f"{name}:{number} and --constraint '{name}={rest[0]}'"
        message = f"'{cut(text)}': types of a resource are labels of nodes; write {instead}"
    else:
        message = f"'{cut(text)}': the count is a whole number; {_FORMS}"
    return Refused("usage", message, "gres")
