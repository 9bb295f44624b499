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
_GRES_CONFIG = re.compile(
    r"^\s*(AutoDetect=|Name=[A-Za-z]\S*\s+\w+=|Cgroup\w+\s*=|Constrain\w+\s*=)", re.MULTILINE | re.IGNORECASE
)
OTHER_FILES = {
    "acct_gather.conf": "agents measure jobs by themselves",
    "burst_buffer.conf": "rankd has no burst buffers",
    "cli_filter.lua": "rankd runs no such scripts; put the rules into access lists, limits and default settings",
    "helpers.conf": "rankd changes no nodes for a job",
    "job_container.conf": "jobs share the machine's /tmp",
    "job_submit.lua": "rankd runs no such scripts: jobs that it refused or changed are accepted as they are; put its"
    " rules into access lists (submitacl, [[qos]] users) and limits",
    "mpi.conf": "rankd starts no MPI processes; mpirun does",
    "oci.conf": "jobs start containers by themselves",
    "plugstack.conf": "rankd runs no SPANK plugins; what they set up has to be done by the jobs or the machine",
    "slurmdbd.conf": "rankd needs no other database; it may have passwords, so don't copy it",
    "topology.conf": "rankd does not know the network's switches; give agents --labels, and let jobs ask with -C",
    "topology.yaml": "rankd does not know the network's switches; give agents --labels, and let jobs ask with -C",
}
"""Files of Slurm's configuration that the import leaves out, with what to do. They are known by their names."""

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
