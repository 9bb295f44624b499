"""The options of ``rankd submit`` that describe a job and its submission.

They may also be given by variables (``RANKD_SUBMIT_QOS``) and by ``#RANKD`` lines of a script: :mod:`.layer`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankd.client.pair import key_value

if TYPE_CHECKING:
    from collections.abc import Collection

NOT_BELOW = ("file", "key", "wrap", "ignore_unknown")
"""Options that only a command line has: they say what is submitted."""


def add_job_options(parser: argparse.ArgumentParser, hidden: Collection[str] = ()) -> None:
    """Add all of them. ``hidden``: those that the help leaves out, by their names in the namespace."""
    _add_belonging(parser)
    _add_size(parser)
    _add_conditions(parser)
    _add_running(parser)
    _add_notifications(parser)
    _add_submission(parser)
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of its options
        if action.dest in hidden:
            action.help = argparse.SUPPRESS


def yes_or_no(text: str) -> str:
    """The value of ``--kill-on-invalid-dep``. Without one, the option means yes.

    Raises:
        ArgumentTypeError: another word, such as the name of a script.
    """
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a choice; write yes or no")
    return text


def _add_belonging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the job belongs to")
    group.add_argument("-J", "--name", "--job-name", help="the job's name (default: the program's name)")
    group.add_argument("-A", "--account", help="the account to charge (default: your default account)")
    group.add_argument("-q", "--queue", help="the queue, such as root.a (default: root.default)")
    group.add_argument("-p", "--partition", help="the partition (default: default)")
    group.add_argument("--qos", help="the quality of service, QoS (default: the one in the configuration)")
    group.add_argument(
        "--class",
        dest="priority_class",
        metavar="CLASS",
        help="the priority class (default: the global default class, if there is one)",
    )
    group.add_argument(
        "--urgency", metavar="N", help="0 (hold) to 31 (before all others), default 16; over 16 needs --admin"
    )
    group.add_argument("--nice", metavar="N", help="an urgency below 16: one less for each 100, at least 1")
    group.add_argument("--application", metavar="ID", help="the application that the job belongs to")
    group.add_argument("--comment", help="a comment, shown by `rankd show`")


def _add_size(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it needs")
    _add_nodes_and_cores(group)
    _add_gpus(group)
    _add_places(group)


def _add_nodes_and_cores(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-N",
        "--nodes",
        metavar="N[-M]",
        help="number of nodes (default: 1); N-M takes as many as are free in this range",
    )
    group.add_argument(
        "-n", "--ntasks", dest="tasks", type=int, metavar="N", help="number of tasks, spread over the nodes"
    )
    group.add_argument(
        "--ntasks-per-node", dest="tasks_per_node", type=int, metavar="N", help="number of tasks on each node"
    )
    group.add_argument(
        "-c",
        "--cores",
        "--cpus-per-task",
        metavar="N",
        help="cores per task (default: 1); without -n there is one task per node; 500m is half a core",
    )
    group.add_argument(
        "--mem", metavar="SIZE", help="memory per node: 4G is 4 GiB, 500 is 500 MiB (default: no memory limit)"
    )
    group.add_argument("--mem-per-cpu", metavar="SIZE", help="memory per core, in the same form")
    group.add_argument("--mem-per-gpu", metavar="SIZE", help="memory per GPU, in the same form")


def _add_gpus(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-G", "--gpus", metavar="N", help="GPUs of the whole job: 2, or of a model: a100:2")
    group.add_argument("--gpus-per-node", metavar="N", help="GPUs per node, in the same form")
    group.add_argument("--gpus-per-task", metavar="N", help="GPUs per task, in the same form")
    group.add_argument("--cpus-per-gpu", type=int, metavar="N", help="cores per GPU, in place of -c")
    group.add_argument(
        "--gres", metavar="NAME:N,...", help="resources per node, such as gpu:2, gpu:a100:2, licence:2; without :N, one"
    )


def _add_places(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-C",
        "--constraint",
        dest="constraints",
        metavar="LABELS",
        help="labels that nodes must have, such as gpu=a100,disk!=hdd",
    )
    group.add_argument(
        "-w", "--nodelist", metavar="NODES", help="exactly these nodes, such as n[01-03]; without -N also their number"
    )
    group.add_argument("-x", "--exclude", metavar="NODES", help="none of these nodes, such as n[01-03],login")
    group.add_argument("--exclusive", action="store_true", help="use whole nodes, shared with no other job")
    group.add_argument("-t", "--time", metavar="LIMIT", help="time limit: minutes, m:s, h:m:s, d-h:m:s, 90s or 2h")


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("when it may start")
    group.add_argument(
        "-b", "--begin", metavar="TIME", help="start no earlier than this: now+2hours, 16:30, 2030-01-31T08:00"
    )
    group.add_argument(
        "-d",
        "--dependency",
        metavar="LIST",
        help="wait for other jobs: afterok:1:2,afterany:3_7,singleton; all conditions must be met",
    )
    group.add_argument(
        "--kill-on-invalid-dep",
        type=yes_or_no,
        nargs="?",
        const="yes",
        metavar="yes|no",
        help="whether the job is cancelled once a dependency can't be met any more (default: as configured)",
    )
    group.add_argument("-H", "--hold", action="store_true", help="hold the job until `rankd release`")
    group.add_argument(
        "-a",
        "--array",
        metavar="LIST[%N]",
        help="an array: a task for each index, such as 0-99, 1,3,7-9 or 0-99:2; with %%N at most N run at a time",
    )
    group.add_argument(
        "--requeue",
        action=argparse.BooleanOptionalAction,
        help="whether the job is queued again if its node is lost (default: it is; with `rankd run`: it is not)",
    )


def _add_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it runs")
    _add_files(group)
    _add_environment(group)


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-D",
        "--chdir",
        metavar="DIR",
        help="working directory (default: the current one; for a command with --nats the agent's)",
    )
    group.add_argument("-i", "--input", dest="stdin", metavar="FILE", help="standard input (default: empty)")
    group.add_argument(
        "-o",
        "--output",
        dest="stdout",
        metavar="FILE",
        help="standard output (default: job-N.out in the agent's output directory; for a script in the working"
        " directory, slurm-N.out if it has #SBATCH lines or is the line of --wrap);"
        " directories that are missing are made, with the user's rights",
    )
    group.add_argument(
        "-e",
        "--error",
        dest="stderr",
        metavar="FILE",
        help="standard error (default: job-N.err there; for a script the same file as standard output)",
    )
    group.add_argument(
        "--open-mode",
        choices=("truncate", "append"),
        help="whether the output files are emptied when the job starts, or kept and extended (default: truncate)",
    )


def _add_environment(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--export",
        metavar="LIST",
        help="environment variables to pass on: NAME, NAME=VALUE, ALL or NONE (default: ALL for a script, else NONE)",
    )
    group.add_argument(
        "--export-env",
        action="append",
        type=key_value,
        default=[],
        metavar="NAME=VALUE",
        help="one environment variable, whose value may hold commas",
    )
    group.add_argument(
        "--wrap", metavar="LINE", help="a shell line in place of a script, which then is #!/bin/sh and this line"
    )
    group.add_argument(
        "--slurm-env",
        action="store_true",
        help="set Slurm's variables, as for a script with #SBATCH lines and for --wrap",
    )
    group.add_argument(
        "--ignore-unknown", action="store_true", help="leave out #SBATCH options without an equivalent, with a warning"
    )


def _add_notifications(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("whom it notifies")
    group.add_argument(
        "--notify",
        metavar="LIST",
        help="notify when the job does this: start, end, fail, timeout, requeue, idle (it does not use its GPUs), all;"
        " tasks: of an array, each task notifies, in place of the whole; none: of nothing",
    )
    group.add_argument(
        "--notify-to",
        metavar="URL,...",
        help="whom to notify: mailto:alice@example.org, https://hooks.example.org/path (default: your own mailbox, if"
        " the site has a domain for mail)",
    )
    group.add_argument(
        "--notify-if-allowed",
        action="store_true",
        help="leave out notifications that the site does not allow, with a warning; #SBATCH lines do so",
    )


def _add_submission(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("submitting")
    group.add_argument("--file", metavar="FILE", help="a job, or a list of jobs, as JSON; - is standard input")
    group.add_argument("--count", type=int, metavar="N", help="number of copies (default: 1)")
    group.add_argument("--key", help="a second submission with the same key gives the same job (default: a new key)")
    group.add_argument("--atomic", action="store_true", help="accept all jobs or none")
    group.add_argument(
        "--retry-for",
        type=float,
        metavar="SECONDS",
        help="repeat the request for up to this long while rankd does not answer, also if none runs (default: 30, and"
        " no waiting for a rankd that does not run)",
    )
    group.add_argument(
        "--enqueue",
        action="store_true",
        help="store the job at the broker; rankd accepts it now, or when it runs again",
    )
    group.add_argument(
        "--test-only",
        action="store_true",
        help="ask rankd whether the job would be accepted, and what would keep it from starting; submit nothing",
    )
    group.add_argument(
        "--print-request", action="store_true", help="print the request as JSON; ask nobody, and submit nothing"
    )
    group.add_argument("-W", "--wait", action="store_true", help="wait until the job ends, and exit with its status")
    group.add_argument("--json", action="store_true", help="print the answer as JSON")
    group.add_argument("--parsable", action="store_true", help="print the job's id alone")
