"""Which of Slurm's formats a text has. This depends only on its content, not on the file's name."""

from __future__ import annotations

import re
from typing import Literal

from rankd.core.slurm.printed_table import canonical

Kind = Literal["dump", "associations", "shares", "qos", "config"]

_DUMP = re.compile(r"^\s*(Cluster|Machine|Parent|Account|Project|User|QOS) +- +", re.MULTILINE)
_CONFIG = re.compile(
    r"^\s*(Priority\w+|PartitionName|NodeName|GresTypes|SlurmctldHost|ClusterName|SLURM_VERSION)\s*=", re.MULTILINE
)
_GRES_CONFIG = re.compile(r"^\s*(AutoDetect=|Name=[A-Za-z]\S*\s+\w+=)", re.MULTILINE | re.IGNORECASE)

NAMES: dict[Kind, str] = {
    "dump": "sacctmgr dump",
    "associations": "sacctmgr -P show assoc tree",
    "shares": "sshare -a -l -P",
    "qos": "sacctmgr -P show qos",
    "config": "scontrol show config",
}


def kind_of(text: str) -> Kind | None:
    """The format of the text. None if it has none of these formats, or if it is a table without its header."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    columns = {canonical(title) for title in header.split("|")} if "|" in header else set()
    if {"account", "rawusage"} <= columns:
        return "shares"
    if {"account", "user"} <= columns:
        return "associations"
    if {"name", "priority"} <= columns:
        return "qos"
    if _DUMP.search(text):
        return "dump"
    return "config" if _CONFIG.search(text) or _GRES_CONFIG.search(text) else None
