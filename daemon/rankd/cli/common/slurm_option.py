"""Options of Slurm's commands that rankd's do not have, and what to do about them. Read only after such an error."""

from __future__ import annotations

_CLUSTERS = "rankd has one cluster; --dir or --nats chooses another rankd"
_LETTERS = "-o takes columns by letters; `rankd {command} -o %%` lists them"
_STEPS = "it lists jobs; `rankd show JOB` and `rankd acct --steps JOB` list their steps"
_RESERVATIONS = "rankd has no reservations of nodes by name yet"
_EACH_NODE = "-N -l shows each node with its amounts"
_ALWAYS = "it is always so in rankd; leave it out"

_WATCH = "to repeat a command, write `watch -n 10 rankd {command}`"
_COLUMNS = "-o names the columns, and -e lists all of them"

_OF_COMMAND: dict[str, dict[str, str]] = {
    "cancel": {
        "-b --batch -f --full": "all processes of a job are ended; leave it out",
        "-i --interactive": "--dry-run prints how many jobs would be cancelled",
        "-R --reservation": _RESERVATIONS,
        "-w --nodelist": "`rankd queue -w NODES` lists the jobs on nodes; cancel them by id",
        "-Q --quiet -H --hurry -c --ctld": "leave it out",
        "-M --clusters": _CLUSTERS,
    },
    "queue": {
        "-O --Format": _LETTERS,
        "-a --all --hide": "all jobs that you may see are listed; leave it out",
        "-s --steps": _STEPS,
        "-P --priority": "jobs are sorted by rank; -S -Q sorts by priority",
        "-R --reservation": _RESERVATIONS,
        "-L --licenses": "rankd counts no licences of the whole site",
        "-M --clusters --local --federation --sibling": _CLUSTERS,
    },
    "nodes": {
        "-O --Format": _LETTERS,
        "-e --exact": _EACH_NODE,
        "-a --all --hide": "all nodes are listed; leave it out",
        "-d --dead": "-t lost shows nodes that do not answer",
        "-r --responding": "-t idle,mixed,allocated shows nodes that can run jobs",
        "-i --iterate": _WATCH,
        "-S --sort": "`rankd nodes -N` sorts by name; pipe it into sort for another order",
        "-T --reservation": _RESERVATIONS,
        "-M --clusters --local --federation": _CLUSTERS,
    },
    "prio": {"-M --cluster --clusters --local --federation": _CLUSTERS},
    "acct": {
        "-a --allusers": "all jobs that you may see are listed; leave it out",
        "-b --brief": _COLUMNS,
        "-r": "write -p PARTITIONS",
        "--parsable": "write -P, which separates columns by |",
        "-N --nodelist": "`rankd queue -w NODES` lists the jobs on nodes",
        "-B --batch-script": "`rankd show --script JOB` prints the script",
        "-D --duplicates -T --truncate": _ALWAYS,
        "-L --allclusters -M --cluster --clusters": _CLUSTERS,
    },
    "share": {
        "-e --helpformat": "a wrong name after -o lists all columns",
        "-m --partition": "shares belong to accounts and users; queues have their own in `rankd queues`",
        "-M --clusters": _CLUSTERS,
    },
    "diag": {
        "-a --all": "everything is printed; leave it out",
        "-i --sort-by-id -t --sort-by-time -T --sort-by-time2": "the output is not sorted; leave it out",
        "-M --cluster": _CLUSTERS,
    },
    "show": {
        "-d --details -a --all": "everything is printed; leave it out",
        "-o --oneliner": "--json prints the record for programs",
    },
}


def slurms(command: str, word: str) -> str | None:
    """What to do about an option of the Slurm command that ``rankd COMMAND`` replaces. None if it has no such option.

    >>> slurms("cancel", "-i")
    '--dry-run prints how many jobs would be cancelled'
    """
    if command == "submit":
        from rankd.core.slurm.sbatch_option import advice

        return advice(word)
    option = word.partition("=")[0] if word.startswith("--") else word[:2]
    for names, text in _OF_COMMAND.get(command, {}).items():
        if option in names.split():
            return text.replace("{command}", command).replace("%%", "%")
    return None
