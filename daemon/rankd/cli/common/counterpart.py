"""Commands of Slurm, Flux and Kubernetes, with their equivalents in rankd. Read only if a command is unknown."""

from __future__ import annotations

COUNTERPARTS = {
    "sbatch": "`rankd submit`",
    "srun": "`rankd run -- COMMAND`",
    "salloc": "`rankd run --pty -- bash`",
    "squeue": "`rankd queue`",
    "scancel": "`rankd cancel`",
    "sinfo": "`rankd nodes`",
    "sacct": "`rankd acct`",
    "sprio": "`rankd prio`",
    "sshare": "`rankd share`",
    "sdiag": "`rankd diag`",
    "sstat": "`rankd show JOB`",
    "seff": "`rankd acct JOB`",
    "logs": "the file that `rankd show JOB` names as stdout",
    "sreport": "`rankd acct` or `rankd share -a`",
    "sacctmgr": "edit accounts.yaml, then `rankd reload --admin`; `rankd share -a` shows the accounts",
    "scontrol": "`rankd hold`, `release`, `update`, `show`, `nodes`, `node drain` or `reload`",
    "scontrol hold": "`rankd hold JOB`",
    "scontrol uhold": "`rankd hold JOB`",
    "scontrol release": "`rankd release JOB`",
    "scontrol update": "`rankd update JOB`; for a node `rankd node drain NODE` or `rankd node resume NODE`",
    "scontrol requeue": "`rankd cancel JOB`, then `rankd retry JOB`; jobs of lost nodes are requeued by themselves",
    "scontrol requeuehold": "`rankd cancel JOB`, then `rankd retry --hold JOB`",
    "scontrol reconfigure": "`rankd reload --admin`",
    "scontrol show": "`rankd show JOB`, `rankd nodes`, `rankd queues` or `rankd config history`",
    "scontrol show job": "`rankd show JOB`",
    "scontrol show node": "`rankd nodes`",
    "scontrol show nodes": "`rankd nodes`",
    "scontrol show partition": "`rankd queues`",
    "scontrol show config": "`rankd config history`",
    "scontrol ping": "`rankd health intake`",
    "flux": "`rankd submit`, `queue`, `cancel` or `watch`",
    "flux submit": "`rankd submit`",
    "flux jobs": "`rankd queue`",
    "flux cancel": "`rankd cancel`",
    "kubectl": "`rankd submit`, `queue`, `show`, `class` or `nodes`",
    "kubectl get": "`rankd queue`, `nodes` or `class list`",
    "kubectl describe": "`rankd show JOB`",
    "kubectl drain": "`rankd node drain NODE`",
    "kubectl uncordon": "`rankd node resume NODE`",
    "qsub": "`rankd submit`",
    "qstat": "`rankd queue`",
    "qdel": "`rankd cancel`",
    "bsub": "`rankd submit`",
    "bjobs": "`rankd queue`",
    "bkill": "`rankd cancel`",
}
"""The equivalents, by the command and its verbs. The entry with the most matching words is used."""

MOST_WORDS = 3


def counterpart(words: list[str]) -> str | None:
    """The equivalent of another program's command line. None if its command is not in the table.

    >>> counterpart(["scontrol", "show", "job", "17"])
    'here it is `rankd show JOB`'
    """
    for count in range(min(MOST_WORDS, len(words)), 0, -1):
        ours = COUNTERPARTS.get(" ".join(words[:count]))
        if ours is not None:
            return f"here it is {ours}"
    return None
