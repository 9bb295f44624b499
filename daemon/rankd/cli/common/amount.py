"""Amounts of resources as Slurm's commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankd.core.model.amount_text import shown_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN_COLUMNS = ("vcore", "memory")


def shown_gres(amounts: Mapping[str, Any]) -> str:
    """Everything besides cores and memory. The number of all GPUs is left out where those of models are known.

    >>> shown_gres({"vcore": 4, "gpu": 4, "gpu:a100": 4, "licence": 2.0})
    'gpu:a100:4,licence:2'
    """
    has_models = any(kind.startswith("gpu:") for kind in amounts)
    kinds = sorted(kind for kind in amounts if kind not in _OWN_COLUMNS and not (has_models and kind == "gpu"))
    return ",".join(f"{kind}:{amounts[kind]:g}" for kind in kinds if amounts[kind])


def shown_tres(cores: float, nodes: int, amounts: Mapping[str, Any]) -> str:
    """Amounts of a whole job as sacct writes them. ``amounts``: of all nodes together.

    >>> shown_tres(8, 2, {"vcore": 4, "memory": 2**33, "gpu": 4, "gpu:a100": 4})
    'cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=8G,node=2'
    """
    found = {"cpu": f"{cores:g}", "node": f"{nodes}"}
    for kind, amount in amounts.items():
        if kind == "memory":
            found["mem"] = shown_bytes(amount)
        elif amount and kind not in _OWN_COLUMNS:
            found[f"gres/{kind}"] = f"{amount:g}"
    return ",".join(f"{name}={found[name]}" for name in sorted(found))


def shown_gpus(amounts: Mapping[str, Any]) -> str:
    """The GPUs among the amounts: a number, or a number of each model.

    >>> shown_gpus({"vcore": 1, "gpu": 2}), shown_gpus({"gpu": 3, "gpu:a100": 2, "gpu:v100": 1}), shown_gpus({})
    ('2', 'a100:2,v100:1', '')
    """
    models = {kind.removeprefix("gpu:"): amount for kind, amount in amounts.items() if kind.startswith("gpu:")}
    if any(models.values()):
        return ",".join(f"{model}:{models[model]:g}" for model in sorted(models) if models[model])
    return f"{amounts['gpu']:g}" if amounts.get("gpu") else ""


def gpus_of(amounts: Mapping[str, Any]) -> float:
    """The number of GPUs of all models.

    >>> gpus_of({"gpu": 3, "gpu:a100": 3}), gpus_of({"gpu:a100": 2}), gpus_of({"vcore": 1})
    (3, 2, 0)
    """
    models: float = sum(amount for kind, amount in amounts.items() if kind.startswith("gpu:"))
    return max(models, amounts.get("gpu") or 0)


def times(amounts: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """The amounts of this number of nodes. None stands for a value that is hidden.

    >>> times({"gpu": 2, "memory": None}, 3)
    {'gpu': 6}
    """
    return {kind: amount * nodes for kind, amount in amounts.items() if amount is not None}
