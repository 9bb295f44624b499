"""``rankd completion``: prints a script with which a shell completes rankd's commands, options and names.

The library shtab makes the script from the commands' own parsers. Only this command imports it. For jobs, queues, nodes
and the like, the script calls the hidden command ``rankd complete``: see :mod:`.complete`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers

SHELLS = ("bash", "zsh", "fish")

FILES = frozenset({"FILE", "FILE|DIR", "STATE.json", "OTHER.json", "JOB.json", "SCRIPT | -- COMMAND"})
DIRECTORIES = frozenset({"DIR"})
KINDS = {
    "JOB": "jobs",
    "IDS": "jobs",
    "NODE": "nodes",
    "NODES": "nodes",
    "QUEUES": "queues",
    "queue": "leaf_queues",
    "PARTITIONS": "partitions",
    "partition": "partitions",
    "CLASS": "classes",
    "USERS": "users",
    "ACCOUNTS": "accounts",
    "account": "accounts",
    "QOS": "qos",
    "qos": "qos",
    "STATES": "states",
    "FIELDS": "acct_fields",
    "COLUMNS": "share_columns",
}
"""What ``rankd complete`` is asked for, by the name that the help shows for a value."""
OF_NODES = {"states": "node_states"}
"""What it is asked for instead by `rankd nodes`."""
WITHIN = "RANKD_COMPLETE_S"
WITHIN_S = 1
"""A shell waits no longer for names, also on a machine that starts programs slowly; or what the variable says."""

_CALL = {
    # compgen -W would expand what it reads, as the shell does; so the lines go into the list as they are
    "bash": '_rankd_ask %s "$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null',
    "zsh": 'local -a found; found=("${(@f)$(_rankd_ask %s "$PREFIX" "${words[@]}" 2>/dev/null)}");'
    ' [[ -n $found ]] && compadd "$@" -a found',
}
_ASK = f"""_rankd_ask() {{
  if command -v timeout >/dev/null; then command timeout "${{{WITHIN}:-{WITHIN_S}}}" rankd complete "$@"
  else rankd complete "$@"; fi
}}"""
_FISH = (
    f"(command timeout (set -q {WITHIN}; and echo ${WITHIN}; or echo {WITHIN_S}) rankd complete %s"
    " (commandline -ct) (commandline -opc) 2>/dev/null)"
)


def add_parser(subparsers: Subparsers) -> None:
    """Add ``completion``."""
    text = (
        "Print a script that completes rankd's commands, options, jobs and names in your shell: "
        'eval "$(rankd completion bash)" in ~/.bashrc.'
    )
    parser = add_command(subparsers, "completion", run, text)
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """The script for one of :data:`SHELLS`."""
    import shtab

    from rankd.cli.main import whole_parser

    parser = whole_parser()
    _mark(parser)
    return str(shtab.complete(parser, shell=shell))


def _mark(parser: argparse.ArgumentParser) -> None:
    """Say for each value of a parser, and of those below it, how it is completed."""
    import argparse

    import shtab

    for action in parser._actions:  # noqa: SLF001 - it has no public list
        name = action.metavar or action.dest
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            for below in set(action.choices.values()):
                _mark(below)
        elif action.nargs == 0 or not isinstance(name, str):
            continue
        elif name in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # shtab's own attribute
        elif name in DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif name in KINDS:
            kind = KINDS[name]
            kind = OF_NODES.get(kind, kind) if parser.prog.endswith(" nodes") else kind
            action.complete = _asking(kind)  # type: ignore[attr-defined]


def _asking(kind: str) -> dict[str, str | dict[str, str]]:
    """How the shells ask for names of this kind, in the form of shtab."""
    function = f"_rankd_complete_{kind}"
    preamble = {shell: f"{_ASK}\n{function}() {{\n  {call % kind}\n}}" for shell, call in _CALL.items()}
    return {"bash": function, "zsh": function, "fish": _FISH % kind, "preamble": preamble}
