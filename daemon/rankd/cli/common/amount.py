"""Amounts of resources as Slurm's commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BINARY = (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10))
_OWN_COLUMNS = ("vcore", "memory")


def shown_gres(amounts: Mapping[str, Any]) -> str:
    """Everything besides cores and memory. The number of all GPUs is left out where those of models are known.

    >>> shown_gres({"vcore": 4, "gpu": 4, "gpu:a100": 4, "licence": 2.0})
    'gpu:a100:4,licence:2'
    """
    has_models = any(kind.startswith("gpu:") for kind in amounts)
    kinds = sorted(kind for kind in amounts if kind not in _OWN_COLUMNS and not (has_models and kind == "gpu"))
    return ",".join(f"{kind}:{amounts[kind]:g}" for kind in kinds if amounts[kind])


def shown_bytes(amount: float) -> str:
    """Memory in the largest binary unit that it fills.

    >>> [shown_bytes(b) for b in (0, 2**30, 1536 * 2**20)]
    ['0', '1G', '1.5G']
    """
    for letter, size in _BINARY:
        if amount >= size:
            return f"{amount / size:.4g}{letter}"
    return f"{amount:g}"
