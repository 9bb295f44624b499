"""What sbatch's options mean in rankd: each is the same, means something else, has no effect, or has no equivalent.

Source: sbatch(1) of Slurm 24.11. A translation gives words of ``rankd submit``. The file :mod:`.sbatch_value` has those
of values that are written differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rankd.core.near_name import cut
from rankd.core.slurm import sbatch_value as value_of
from rankd.core.slurm.sbatch_line import Spelling, Takes, read_options


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


def _time_limit(value: str) -> Translated:
    limit = value_of.time_limit(value)
    if limit is None:
        return Translated(remark="a job can't ask for no limit; it gets the site's default time limit, if there is one")
    return Translated([f"--time={limit}"])


def _exclusive(value: str) -> Translated:
    if value:
        raise ValueError(f"sharing a node by {value} has no equivalent; --exclusive alone keeps the whole node")
    return Translated(["--exclusive"])


def _open_mode(value: str) -> Translated:
    word = value.strip().lower()
    mode = next((mode for mode in ("append", "truncate") if word and mode.startswith(word)), None)
    if mode is None:
        raise ValueError(f"'{cut(value)}' is not a way to open the output files; write append or truncate")
    return Translated([f"--open-mode={mode}"])


def _mail_type(value: str) -> Translated:
    events, unknown = value_of.mail_type(value)
    remark = f"rankd sends no notifications of {', '.join(unknown)}" if unknown else ""
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
    Spelling("tasks-per-node"): _same("ntasks-per-node"),
    Spelling("open-mode"): _open_mode,
    Spelling("output", "o"): _by("output", value_of.file_pattern),
    Spelling("parsable", "", Takes.NOTHING): _flag("parsable"),
    Spelling("partition", "p"): _same("queue"),
    Spelling("qos", "q"): _same("qos"),
    Spelling("requeue", "", Takes.NOTHING): _flag("requeue"),
    Spelling("test-only", "", Takes.NOTHING): _flag("test-only"),
    Spelling("time", "t"): _time_limit,
    Spelling("wait", "W", Takes.NOTHING): _flag("wait"),
    Spelling("workdir"): _same("chdir"),
}

_IGNORED: Mapping[str, Sequence[Spelling]] = {
    "rankd does not bind tasks, memory or GPUs to single processors": (
        Spelling("cores-per-socket"),
        Spelling("cpu-bind"),
        Spelling("distribution", "m"),
        Spelling("extra-node-info", "B"),
        Spelling("gpu-bind"),
        Spelling("gres-flags"),
        Spelling("hint"),
        Spelling("mem-bind"),
        Spelling("ntasks-per-core"),
        Spelling("ntasks-per-socket"),
        Spelling("sockets-per-node"),
        Spelling("threads-per-core"),
        Spelling("tres-bind"),
    ),
    "rankd does not know this preference; -C and -w choose nodes": (
        Spelling("contiguous", "", Takes.NOTHING),
        Spelling("prefer"),
        Spelling("segment"),
        Spelling("spread-job", "", Takes.NOTHING),
        Spelling("switches"),
        Spelling("use-min-nodes", "", Takes.NOTHING),
    ),
    "rankd does not change the clock frequency of processors": (Spelling("cpu-freq"), Spelling("gpu-freq")),
    "rankd keeps no cores free for the system": (Spelling("core-spec", "S"), Spelling("thread-spec")),
    "rankd gives each job the cores that it asks for; without --exclusive, jobs share nodes": (
        Spelling("overcommit", "O", Takes.NOTHING),
        Spelling("oversubscribe", "s", Takes.NOTHING),
        Spelling("share", "", Takes.NOTHING),
    ),
    "the time limit is always --time": (Spelling("time-min"),),
    "rankd chooses how often it measures jobs": (Spelling("acctg-freq"),),
    "a script runs on the first node of its job": (Spelling("batch"),),
    "--export chooses the environment": (Spelling("get-user-env", "", Takes.MAYBE),),
    "rankd never reads #PBS lines": (Spelling("ignore-pbs", "", Takes.NOTHING),),
    "a job always ends when one of its nodes is lost, and is queued again unless --no-requeue is given": (
        Spelling("no-kill", "k", Takes.MAYBE),
    ),
    "rankd does not switch nodes on or off": (Spelling("power"), Spelling("wait-all-nodes")),
    "rankd records no profiles; `rankd show` and `rankd acct` have what a job used": (Spelling("profile"),),
    "limits of your shell (ulimit) are not passed on": (Spelling("propagate", "", Takes.MAYBE),),
    "it only changes what sbatch prints": (
        Spelling("quiet", "Q", Takes.NOTHING),
        Spelling("verbose", "v", Takes.NOTHING),
    ),
    "each node's agent starts the steps of a job": (Spelling("stepmgr", "", Takes.NOTHING),),
    "rankd does not choose whether a step or its whole job ends when memory runs out": (
        Spelling("oom-kill-step", "", Takes.MAYBE),
    ),
    "rankd has no workload keys; --comment keeps a text with the job": (Spelling("wckey"),),
    "rankd keeps no other text with a job than --comment": (Spelling("extra"),),
}
"""Options that change nothing in rankd, by the reason."""

_NO_BURST_BUFFER = "rankd has no burst buffers; copy the files in the script"
_NO_CONTAINER = "rankd starts no containers; call apptainer or podman in the script"
_MISSING: Mapping[str, Sequence[Spelling]] = {
    "rankd reads no file with names of nodes; write the names with --nodelist": (Spelling("nodefile", "F"),),
    "rankd has no reservations of nodes by name yet": (Spelling("reservation"),),
    "rankd sends no signal before the time limit; the job gets SIGTERM at its end, and SIGKILL after node.grace_s": (
        Spelling("signal"),
    ),
    "rankd counts no licences of the whole site; nodes may offer them as a resource, for --gres": (
        Spelling("licenses", "L"),
    ),
    "rankd has one cluster; `rankd submit --dir` or `--nats` chooses another rankd": (
        Spelling("clusters", "M"),
        Spelling("cluster-constraint"),
    ),
    "rankd does not know sockets; write --gpus-per-node": (Spelling("gpus-per-socket"),),
    "write the number of cores with -c; without -n, it is the number on each node": (Spelling("mincpus"),),
    "write --ntasks-per-node and --gpus-per-node": (Spelling("ntasks-per-gpu"),),
    "rankd does not know how large /tmp is; nodes may offer disk space as a resource, for --gres": (Spelling("tmp"),),
    "write -c for the cores of each task, and --gpus-per-task for its GPUs": (Spelling("tres-per-task"),),
    "only administrators can fix a priority, with `rankd update --admin --fix-priority N JOB`": (Spelling("priority"),),
    "a job belongs to the user who submits it": (Spelling("gid"), Spelling("uid")),
    "rankd reads no file with variables; name the variables with --export": (Spelling("export-file"),),
    "the script itself is the job; write the line into it": (Spelling("wrap"),),
    _NO_BURST_BUFFER: (Spelling("bb"), Spelling("bbf")),
    _NO_CONTAINER: (Spelling("container"), Spelling("container-id")),
    "rankd has no deadlines; -t limits how long the job runs": (Spelling("deadline"),),
    "rankd does not forward X11 windows": (Spelling("x11", "", Takes.MAYBE),),
    "rankd does not start nodes": (Spelling("delay-boot"), Spelling("reboot", "", Takes.NOTHING)),
    "rankd has no security labels": (Spelling("mcs-label"),),
    "rankd does not set up networks": (Spelling("network"), Spelling("resv-ports", "", Takes.MAYBE)),
}
"""Options that rankd does not have although a job may depend on them, by what to do instead."""

OPTIONS: Mapping[str, Option] = {
    **{spelling.name: Option(spelling, meaning) for spelling, meaning in _SAME.items()},
    **{one.name: Option(one, _ignored(why)) for why, spellings in _IGNORED.items() for one in spellings},
    **{one.name: Option(one, _missing(advice)) for advice, spellings in _MISSING.items() for one in spellings},
}
"""All options by their long names."""

WITHOUT_EQUIVALENT = frozenset(one.name for spellings in _MISSING.values() for one in spellings)
"""The long names of the options that rankd does not have at all."""

SPELLINGS: Mapping[str, Spelling] = {name: option.spelling for name, option in OPTIONS.items()}


class Refusal(NamedTuple):
    """An option that can't be used, and why. ``option`` is empty if sbatch has no such option."""

    option: str
    why: str


def translate(words: Sequence[str]) -> tuple[list[str], list[str], list[Refusal]]:
    """A line of sbatch's options: words of ``rankd submit``, remarks, and the options that can't be used.

    Raises:
        ValueError: a word of the line is not an option, or lacks its value.
    """
    ours: list[str] = []
    remarks: list[str] = []
    refused: list[Refusal] = []
    for given in list(read_options(words, SPELLINGS, lambda error: refused.append(Refusal("", str(error))))):
        try:
            translated = OPTIONS[given.name].meaning(given.value or "")
        except ValueError as error:
            refused.append(Refusal(given.name, str(error)))
            continue
        ours += translated.words
        if translated.remark:
            effect = "" if translated.words else " has no effect here"
            remarks.append(f"--{given.name}{effect}: {translated.remark}")
    return ours, remarks, refused


_OTHER_NAME = {
    "mail-type": "--notify LIST, such as --notify end,fail",
    "mail-user": "--notify-to mailto:ADDRESS",
    "workdir": "--chdir DIR",
}
"""Options of ``#SBATCH`` lines that the command line of ``rankd submit`` has under another name."""


def advice(word: str) -> str | None:
    """What to do about an option of sbatch on the command line of ``rankd submit``, which does not have it.

    None if sbatch has no such option either.

    >>> advice("--mail-type=END")
    "sbatch's --mail-type is --notify LIST, such as --notify end,fail"
    >>> advice("-k")
    "sbatch's --no-kill has no effect in rankd; leave it out"
    """
    if word.startswith("--"):
        name = word[2:].partition("=")[0]
    else:
        name = next((one.name for one in SPELLINGS.values() if one.letter and one.letter == word[1:2]), "")
    if name in _OTHER_NAME:
        return f"sbatch's --{name} is {_OTHER_NAME[name]}"
    if any(one.name == name for spellings in _IGNORED.values() for one in spellings):
        return f"sbatch's --{name} has no effect in rankd; leave it out"
    why = next((why for why, spellings in _MISSING.items() if any(one.name == name for one in spellings)), None)
    return None if why is None else f"rankd has nothing like sbatch's --{name}: {why}"
