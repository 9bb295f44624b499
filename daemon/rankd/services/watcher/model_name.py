"""The name of a GPU's model, as jobs ask for it, from the name that the vendor's driver gives.

The rule: lower case; words are separated by spaces, ``-``, ``_`` and ``/``. Words about the vendor, the form, the
memory and the case are left out. ``rtx`` and ``gtx`` are joined with the number that follows. What is left is joined by
``-``. So cards that differ only in their memory or their form have one name; their memory is shown beside it.
"""

from __future__ import annotations

import re

UNKNOWN = "unknown"
LONGEST = 63

_SEPARATORS = re.compile(r"[\s_/-]+")
_FOREIGN = re.compile(r"[^a-z0-9.-]+")
_VENDORS = ("nvidia", "amd", "ati", "corporation", "tesla", "geforce", "radeon", "instinct")
_FORMS = ("graphics", "gpu", "generation", "edition", "workstation", "server", "mcm", "dgxs", "oam", "nvl", "pcie")
_LEFT_OUT = frozenset(_VENDORS + _FORMS)
_PATTERNS = re.compile(r"sxm\d*|\d+gi?b|\d\d+g|hbm\d*e?|gddr\d*x?")
_MARKS = re.compile(r"\((tm|r)\)|[™®]")
_PROFILE = re.compile(r"\bmig ([0-9a-z.+]+)")
_SERIES = frozenset({"rtx", "gtx", "gt"})
_AMPERE = re.compile(r"a\d{3,4}")


def model_name(name: str) -> str:
    """The model of a card.

    >>> model_name("NVIDIA A100-SXM4-80GB"), model_name("NVIDIA H100 80GB HBM3"), model_name("Tesla V100-PCIE-32GB")
    ('a100', 'h100', 'v100')
    >>> model_name("NVIDIA GeForce RTX 3090"), model_name("NVIDIA RTX A6000"), model_name("AMD Instinct MI300X")
    ('rtx3090', 'a6000', 'mi300x')
    """
    lower = _MARKS.sub(" ", name.lower())
    words = [_FOREIGN.sub("", word).strip(".-") for word in _SEPARATORS.split(lower)]
    kept = [word for word in words if word and word not in _LEFT_OUT and not _PATTERNS.fullmatch(word)]
    return "-".join(_joined(kept))[:LONGEST].strip(".-") or UNKNOWN


def instance_name(parent: str, name: str, slices: int, memory_bytes: int) -> str:
    """The model of a part of a card (MIG), named as NVIDIA's profile of it. ``name``: what the driver calls the part.

    Old drivers name no profile; then it is made from the slices and the memory.

    >>> instance_name("a100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", 1, 9728 * 2**20)
    'a100-1g.10gb.me'
    >>> instance_name("a100", "NVIDIA A100-SXM4-80GB", 1, 9728 * 2**20)
    'a100-1g.10gb'
    """
    found = _PROFILE.search(name.lower())
    profile = found[1].replace("+", ".") if found else f"{slices}g.{-(-memory_bytes // 2**30)}gb"
    return f"{parent}-{profile}"[:LONGEST]


def _joined(words: list[str]) -> list[str]:
    """Join the name of a series with the number after it. NVIDIA's A cards have the same names with and without RTX."""
    result: list[str] = []
    for word in words:
        if result and result[-1] in _SERIES and _AMPERE.fullmatch(word):
            result[-1] = word
        elif result and result[-1] in _SERIES and word[0].isdigit():
            result[-1] += word
        else:
            result.append(word)
    return result
