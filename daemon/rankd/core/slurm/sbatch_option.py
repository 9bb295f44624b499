"""What sbatch's options mean in rankd: each is the same, means something else, has no effect, or has no equivalent.

Source: sbatch(1) of Slurm 24.11. A translation gives words of ``rankd submit``. The file :mod:`.sbatch_value` has those
of values that are written differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankd.core.slurm import sbatch_value as value_of
from rankd.core.slurm.sbatch_line import Spelling, Takes, read_options

PLACEMENT = "rankd places tasks and processors itself"
STEPS = "rankd has no steps yet"


class Translated(NamedTuple):
    """Words of ``rankd submit`` for one option, and what a user should know about it."""

    words: Sequence[str] = ()
    remark: str = ""


Meaning = Callable[[str], Translated]
"""The translation of a value.

Raises:
    ValueError: the value has no equivalent.
"""


class Option(NamedTuple):
    """An option of sbatch and its meaning; an option without a value is translated as one with an empty value."""

    spelling: Spelling
    meaning: Meaning


def _same(ours: str) -> Meaning:
    return lambda value: Translated([f"--{ours}={value}"])


def _flag(ours: str) -> Meaning:
    return lambda _: Translated([f"--{ours}"])


def _by(ours: str, convert: Callable[[str], str | None]) -> Meaning:
    """An option whose value is written differently; None means that it says nothing."""

    def meaning(value: str) -> Translated:
        converted = convert(value)
        return Translated() if converted is None else Translated([f"--{ours}={converted}"])

    return meaning


def _ignored(why: str) -> Meaning:
    return lambda _: Translated(remark=why)


def _missing(advice: str) -> Meaning:
    def meaning(_: str) -> Translated:
        raise ValueError(advice)

    return meaning


def _memory(value: str) -> Translated:
    if value.strip("0") in ("", "K", "M", "G", "T"):
        return Translated(
            remark="the job has no memory limit, and no memory is kept for it; --exclusive keeps the node"
        )
    return Translated([f"--mem={value}"])


def _exclusive(value: str) -> Translated:
    if value:
        raise ValueError(f"sharing a node by {value} has no equivalent; --exclusive alone keeps the whole node")
    return Translated(["--exclusive"])


def _open_mode(value: str) -> Translated:
    if value != "truncate":
        raise ValueError("output files of one node are written anew; give a name with %j")
    return Translated()


def _mail_type(value: str) -> Translated:
    events, unknown = value_of.mail_type(value)
    remark = f"{', '.join(unknown)} are not events of rankd's" if unknown else ""
    return Translated([f"--notify={events}", *_IF_ALLOWED] if events else (), remark)


def _mail_user(value: str) -> Translated:
    return Translated([f"--notify-to={value_of.mail_user(value)}", *_IF_ALLOWED])


_IF_ALLOWED = ("--notify-if-allowed",)
_SAME: Mapping[Spelling, Meaning] = {
    Spelling("account", "A"): _same("account"),
    Spelling("array", "a"): _same("array"),
    Spelling("begin", "b"): _same("begin"),
    Spelling("chdir", "D"): _same("chdir"),
    Spelling("comment"): _same("comment"),
    Spelling("constraint", "C"): _by("constraint", value_of.constraint),
    Spelling("cpus-per-gpu"): _same("cpus-per-gpu"),
    Spelling("cpus-per-task", "c"): _same("cpus-per-task"),
    Spelling("dependency", "d"): _same("dependency"),
    Spelling("error", "e"): _by("error", value_of.file_pattern),
    Spelling("exclusive", "", Takes.MAYBE): _exclusive,
    Spelling("exclude", "x"): _same("exclude"),
    Spelling("export"): _by("export", value_of.exported),
    Spelling("gpus", "G"): _by("gpus", value_of.gpus),
    Spelling("gpus-per-node"): _by("gpus-per-node", value_of.gpus),
    Spelling("gpus-per-task"): _by("gpus-per-task", value_of.gpus),
    Spelling("gres"): _same("gres"),
    Spelling("hold", "H", Takes.NOTHING): _flag("hold"),
    Spelling("input", "i"): _by("input", value_of.file_pattern),
    Spelling("job-name", "J"): _same("job-name"),
    Spelling("mail-type"): _mail_type,
    Spelling("mail-user"): _mail_user,
    Spelling("kill-on-invalid-dep"): _same("kill-on-invalid-dep"),
    Spelling("mem"): _memory,
    Spelling("mem-per-cpu"): _same("mem-per-cpu"),
    Spelling("mem-per-gpu"): _same("mem-per-gpu"),
    Spelling("nice", "", Takes.MAYBE): _by("urgency", value_of.urgency_of_nice),
    Spelling("no-requeue", "", Takes.NOTHING): _flag("no-requeue"),
    Spelling("nodelist", "w"): _same("nodelist"),
    Spelling("nodes", "N"): _same("nodes"),
    Spelling("ntasks", "n"): _same("ntasks"),
    Spelling("ntasks-per-node"): _same("ntasks-per-node"),
    Spelling("open-mode"): _open_mode,
    Spelling("output", "o"): _by("output", value_of.file_pattern),
    Spelling("parsable", "", Takes.NOTHING): _flag("parsable"),
    Spelling("partition", "p"): _same("queue"),
    Spelling("qos", "q"): _same("qos"),
    Spelling("requeue", "", Takes.NOTHING): _flag("requeue"),
    Spelling("test-only", "", Takes.NOTHING): _flag("test-only"),
    Spelling("time", "t"): _by("time", value_of.time_limit),
    Spelling("wait", "W", Takes.NOTHING): _flag("wait"),
    Spelling("workdir"): _same("chdir"),
}

_IGNORED: Mapping[str, Sequence[Spelling]] = {
    PLACEMENT: (
        Spelling("contiguous", "", Takes.NOTHING),
        Spelling("core-spec", "S"),
        Spelling("cores-per-socket"),
        Spelling("cpu-bind"),
        Spelling("cpu-freq"),
        Spelling("distribution", "m"),
        Spelling("extra-node-info", "B"),
        Spelling("gpu-bind"),
        Spelling("gpu-freq"),
        Spelling("gres-flags"),
        Spelling("hint"),
        Spelling("mem-bind"),
        Spelling("ntasks-per-core"),
        Spelling("ntasks-per-socket"),
        Spelling("overcommit", "O", Takes.NOTHING),
        Spelling("oversubscribe", "s", Takes.NOTHING),
        Spelling("prefer"),
        Spelling("segment"),
        Spelling("sockets-per-node"),
        Spelling("spread-job", "", Takes.NOTHING),
        Spelling("switches"),
        Spelling("thread-spec"),
        Spelling("threads-per-core"),
        Spelling("tres-bind"),
        Spelling("use-min-nodes", "", Takes.NOTHING),
    ),
    "the job keeps its whole --time": (Spelling("time-min"),),
    "rankd does this, or does not need it": (
        Spelling("acctg-freq"),
        Spelling("batch"),
        Spelling("get-user-env", "", Takes.MAYBE),
        Spelling("ignore-pbs", "", Takes.NOTHING),
        Spelling("no-kill", "k", Takes.MAYBE),
        Spelling("power"),
        Spelling("profile"),
        Spelling("propagate", "", Takes.MAYBE),
        Spelling("quiet", "Q", Takes.NOTHING),
        Spelling("stepmgr", "", Takes.NOTHING),
        Spelling("verbose", "v", Takes.NOTHING),
        Spelling("wait-all-nodes"),
        Spelling("wckey"),
    ),
}

_MISSING: Mapping[str, Sequence[Spelling]] = {
    "a file with a list of nodes is not read; write the list with --nodelist": (Spelling("nodefile", "F"),),
    "rankd has no reservations of nodes by name yet": (Spelling("reservation"),),
    "rankd sends no signal before the time limit; the job gets SIGTERM at its end, and SIGKILL after node.grace_s": (
        Spelling("signal"),
    ),
    "licences of the whole site have no equivalent; nodes may offer them as a resource, for --gres": (
        Spelling("licenses", "L"),
    ),
    "there is one cluster; --dir or --nats names another rankd": (Spelling("clusters", "M"),),
    "a job has one description only": (Spelling("cluster-constraint"),),
    "give the amounts of each node: -N, --ntasks-per-node, -c, --mem, --gpus-per-node": (
        Spelling("gpus-per-socket"),
        Spelling("mincpus"),
        Spelling("ntasks-per-gpu"),
        Spelling("tmp"),
        Spelling("tres-per-task"),
    ),
    "administrators fix a job's priority with `rankd update`": (Spelling("priority"),),
    "only --as, or the user who asks, says whose job it is": (Spelling("gid"), Spelling("uid")),
    "name the variables with --export": (Spelling("export-file"),),
    "the script itself is the job": (Spelling("wrap"),),
    "it has no equivalent": (
        Spelling("bb"),
        Spelling("bbf"),
        Spelling("container"),
        Spelling("container-id"),
        Spelling("deadline"),
        Spelling("delay-boot"),
        Spelling("mcs-label"),
        Spelling("network"),
        Spelling("reboot", "", Takes.NOTHING),
    ),
}

OPTIONS: Mapping[str, Option] = {
    **{spelling.name: Option(spelling, meaning) for spelling, meaning in _SAME.items()},
    **{one.name: Option(one, _ignored(why)) for why, spellings in _IGNORED.items() for one in spellings},
    **{one.name: Option(one, _missing(advice)) for advice, spellings in _MISSING.items() for one in spellings},
}
"""All options by their long names."""

SPELLINGS: Mapping[str, Spelling] = {name: option.spelling for name, option in OPTIONS.items()}


class Refusal(NamedTuple):
    """An option that can't be used, and why."""

    option: str
    why: str


def translate(words: Sequence[str]) -> tuple[list[str], list[str], list[Refusal]]:
    """A line of sbatch's options: words of ``rankd submit``, remarks, and the options that have no equivalent.

    Raises:
        ValueError: the line is not one of sbatch's options.
    """
    ours: list[str] = []
    remarks: list[str] = []
    refused: list[Refusal] = []
    for given in list(read_options(words, SPELLINGS)):
        try:
            translated = OPTIONS[given.name].meaning(given.value or "")
        except ValueError as error:
            refused.append(Refusal(given.name, str(error)))
            continue
        ours += translated.words
        if translated.remark:
            remarks.append(f"--{given.name} has no effect here: {translated.remark}")
    return ours, remarks, refused
