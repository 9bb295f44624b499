"""The programs that a node's administrator lets an agent run around jobs, and to check the node. Pure.

Source of the names of variables: Slurm 24.11, "Prolog and Epilog Guide".
"""

from __future__ import annotations

from rankd.core.model.device_environment import device_variables
from rankd.core.model.job_place import JobPlace
from rankd.core.model.nodelist import fold
from rankd.core.printable import printable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_LINE = 300
"""Characters of a program's last line that are shown."""


def base_environment(node: str) -> dict[str, str]:
    """The variables of every such program: none of the agent's own, which may be secret or lead to other programs."""
    return {"PATH": PATH, "LANG": "C.UTF-8", "RANKD_NODE_NAME": node, "SLURMD_NODENAME": node}


def hook_environment(place: JobPlace) -> dict[str, str]:
    """The variables of a prolog or epilog. No text of the job's user is in them: not its name, nor its environment."""
    ids = {"JOB_ID": place.job, "JOB_UID": place.uid, "JOB_GID": place.gid, "RESTART_COUNT": place.requeues}
    names = {
        "JOB_USER": place.user,
        "JOB_ACCOUNT": place.account,
        "JOB_PARTITION": place.queue.removeprefix("root."),
        "JOB_QOS": place.qos,
        "JOB_NODELIST": fold(place.nodes),
        "NODEID": str(place.rank),
        "NNODES": str(len(place.nodes)),
        "CLUSTER_NAME": place.cluster,
        **{name: str(number) for name, number in ids.items() if number is not None},
    }
    if place.array is not None:
        names |= {"ARRAY_JOB_ID": str(place.array.job), "ARRAY_TASK_ID": str(place.array.task)}
    if place.devices:
        names["JOB_GPUS"] = ",".join(str(device.index) for device in place.devices)
    devices = {} if place.counts_gpus else device_variables(place.devices, place.vendors, confines=False)
    return {
        **base_environment(place.node),
        **{f"SLURM_{name}": value for name, value in names.items()},
        "RANKD_JOB_ID": str(place.job),
        "RANKD_ALLOCATION_ID": str(place.allocation),
        "RANKD_USER": place.user,
        "RANKD_NODELIST": ",".join(place.nodes),
        "RANKD_NODE_RANK": str(place.rank),
        "RANKD_NNODES": str(len(place.nodes)),
        **devices,
    }


def last_line(output: bytes) -> str:
    r"""The last line with text of a program's output, printable and bounded; empty for an output without text.

    >>> last_line(b"mounting\nno \x1b[31mscratch\n\n")
    'no \\u001b[31mscratch'
    """
    lines = output.decode(errors="replace").split("\n")
    found = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return printable(found[:LONGEST_LINE])[:LONGEST_LINE]


def failure(kind: str, program: str, how: str, output: bytes) -> str:
    r"""Why a node is drained: which program failed and how, with the last line of its output.

    >>> failure("prolog", "/etc/rankd/prolog", "ended with 1", b"no scratch\\n")
    'prolog /etc/rankd/prolog ended with 1: no scratch'
    """
    line = last_line(output)
    return f"{kind} {printable(program)} {how}" + (f": {line}" if line else "")
