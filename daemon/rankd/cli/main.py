"""``rankd``: finds the command, imports only its module, and turns errors into exit statuses.

A command that only looks starts in under 150 ms, so this module imports the standard library and its own package only.
A new command takes one line in :data:`COMMANDS` and a module whose ``add_parser(subparsers)`` adds a parser
of that name with ``set_defaults(run=…)``; ``run(arguments)`` returns the exit status.

Exit statuses: 0 done, 1 refused or failed, 2 usage or a bad document, 3 not running or not available, 4 the output
could not be written, 130 interrupted, 141 the reader has gone. `submit --wait` ends with the job's own status.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rankd.cli.common.output import Aside, OutputError, open_closed_streams, whole
from rankd.cli.common.screen import Guarded
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 3
UNWRITTEN = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

BAD_DOCUMENT = frozenset(
    {
        *("usage", "bad_request", "bad_field", "unknown_field", "missing_field", "bad_configuration"),
        *("bad_array", "bad_begin_at", "bad_constraints", "bad_directive", "bad_job_id", "bad_key", "bad_name"),
        *("bad_nodes", "bad_notify", "bad_quantity", "bad_script", "bad_signal", "bad_text", "bad_time_limit"),
        *("bad_trace", "script_too_large"),
    }
)
"""Codes of errors in the form of a request or of a value, in contrast to requests that are not allowed."""


class Command(NamedTuple):
    """Where a command is, and its line in the global help."""

    group: str
    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "up": Command("Run", "run.up", "broker, database and all services on this machine"),
    "demo": Command("Run", "run.demo", "two minutes of a busy queue, explained"),
    "login": Command("Run", "run.login", "use a rankd on another machine: exchange an invitation for credentials"),
    "completion": Command("Run", "run.completion", "a script for your shell that completes commands and names"),
    "submit": Command("Jobs", "jobs.submit", "submit a job, or many (sbatch)"),
    "run": Command("Jobs", "jobs.run", "run a command as a job, and see here what it prints (srun)"),
    "attach": Command("Jobs", "jobs.run", "join a job that `rankd run` has started (sattach)"),
    "shell": Command("Jobs", "jobs.run", "a shell, or a command, in a running job"),
    "cancel": Command("Jobs", "jobs.cancel_hold_release", "cancel jobs (scancel)"),
    "hold": Command("Jobs", "jobs.cancel_hold_release", "keep pending jobs from starting (scontrol hold)"),
    "release": Command("Jobs", "jobs.cancel_hold_release", "let held jobs start"),
    "signal": Command("Jobs", "jobs.signal", "send a signal to the processes of running jobs (scancel -s)"),
    "update": Command("Jobs", "jobs.update", "change jobs that wait, time limits of running ones (scontrol update)"),
    "retry": Command("Jobs", "jobs.retry", "submit ended jobs again, or the failed tasks of an array"),
    "deadletter": Command("Jobs", "jobs.deadletter", "submissions that became no job, notifications that failed"),
    "queue": Command("Look", "look.queue", "jobs that wait or run (squeue)"),
    "prio": Command("Look", "look.prio", "priorities of waiting jobs, factor by factor (sprio)"),
    "why": Command("Look", "look.why", "why a job has its rank, and why it does not run"),
    "when": Command("Look", "look.when", "when a pending job will start: the earliest and the latest time"),
    "show": Command("Look", "look.show", "everything about a job"),
    "history": Command("Look", "look.show", "what happened to a job, and when"),
    "list": Command("Look", "look.queue", "jobs in any state, by id"),
    "watch": Command("Look", "look.watch", "events of jobs, as they happen"),
    "logs": Command("Look", "look.logs", "what a job prints, while it runs and afterwards, from any machine"),
    "acct": Command("Look", "look.acct", "what jobs used, including ended ones (sacct)"),
    "nodes": Command("Look", "look.nodes", "nodes and how full they are (sinfo)"),
    "share": Command("Look", "look.share", "shares, usage and fair share by account and user (sshare)"),
    "queues": Command("Look", "look.queues", "the tree of queues, with their priorities"),
    "evaluate": Command("What if", "what_if.evaluate", "what rankd would decide for a given state, offline"),
    "whatif": Command(
        "What if", "what_if.whatif", "what other weights, another configuration or more jobs would change"
    ),
    "simulate": Command("What if", "what_if.simulate", "what rankd would have done with the jobs of a trace, offline"),
    "dump": Command("What if", "what_if.dump", "the live state, in the format of evaluate"),
    "replay": Command("What if", "what_if.replay", "a past cycle again: what it knew, what it decided, and why"),
    "class": Command(
        "Configure", "configure.class_command", "priority classes: list, show, create, update, delete, check"
    ),
    "config": Command("Configure", "configure.config_check", "check a configuration; list those that were in force"),
    "import": Command(
        "Configure", "configure.import_command", "make a configuration from the output of Slurm's commands"
    ),
    "node": Command(
        "Administer", "administer.node_command", "drain nodes, let them accept jobs again, let new ones in"
    ),
    "reload": Command("Administer", "administer.reload", "read the configuration's files again, without a restart"),
    "streams": Command(
        "Administer", "administer.streams", "compare the broker's streams with the database, and make them anew"
    ),
    "auth": Command("Administer", "administer.auth_command", "users, invitations, credentials"),
    "diag": Command("Administer", "administer.diag", "statistics of the services: cycles, passes, durations (sdiag)"),
    "intake": Command("Services", "services.service_command", "accepts requests and records jobs"),
    "prioritizer": Command("Services", "services.service_command", "ranks the pending jobs"),
    "scheduler": Command("Services", "services.service_command", "starts jobs in the order of the ranking"),
    "forecaster": Command("Services", "services.service_command", "says when pending jobs will start"),
    "agent": Command("Services", "services.agent_command", "runs jobs on a node"),
    "gateway": Command("Services", "services.service_command", "lets users of this machine ask as themselves"),
    "web": Command("Services", "services.web_command", "the page: the queue in a browser, live"),
    "notifier": Command("Services", "services.service_command", "sends the notifications that jobs ask for"),
    "health": Command("Services", "services.health", "whether a service is ready"),
    "db": Command("Services", "services.db", "upgrade, check or query the database"),
}

HIDDEN: dict[str, Command] = {"complete": Command("Run", "run.complete", "names, for a shell that completes words")}
"""Commands that programs call."""

DASHED = {"queue": ("-S", "--sort", "-"), "prio": ("-S", "--sort", "-"), "update": ("-t", "--time", "-[0-9]")}
"""Options whose values may begin with a dash, and how: ``-S -p``, ``--time -5m``. argparse takes these for options."""

USAGE_OF = {"rankd run": 125}
"""Exit statuses of wrong usage that are not :data:`USAGE`: 2 may be that of the command."""


def process() -> int:
    """The command of this process, which ends with the returned status.

    Imported code and its classes live until the end: to search them for garbage, while they are imported and when the
    interpreter ends, takes 8 ms.
    """
    gc.disable()
    status = main()
    gc.freeze()
    return status


def main(argv: list[str] | None = None) -> int:
    """Run a command line and return the exit status. Control characters in texts of users are escaped.

    The status is 0 only if the whole output was written.
    """
    open_closed_streams()
    with redirect_stdout(Guarded(whole(sys.stdout))), redirect_stderr(Aside(whole(sys.stderr))):
        return _main(argv)


def _main(argv: list[str] | None) -> int:
    try:
        status = _run_and_report(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _drop_output()
        return INTERRUPTED
    except OutputError as error:
        _drop_output()
        print(f"rankd: {printable(str(error))}", file=sys.stderr)
        return UNWRITTEN
    return status


def _run_and_report(argv: list[str]) -> int:
    """The exit status, also if the command raised an error of rankd's own."""
    try:
        return _run_to_end(argv)
    except (BrokenPipeError, OutputError):
        raise
    except Exception as error:  # noqa: BLE001 - other errors are raised again
        return _report(error)


def _run_to_end(argv: list[str]) -> int:
    """The exit status, also if argparse ends the command."""
    try:
        return _run(argv)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else DONE


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_global_help())
        return DONE if argv else USAGE
    if argv[0] in ("-V", "--version", "version"):
        from rankd import __version__

        print(f"rankd {__version__}")
        return DONE
    _refuse_other_encodings(argv)
    if argv[0] not in COMMANDS | HIDDEN:
        return _unknown(argv)
    arguments = _parser(argv[0]).parse_args(_with_dashes(argv, *DASHED[argv[0]]) if argv[0] in DASHED else argv)
    gc.enable()
    return int(arguments.run(arguments))


def _refuse_other_encodings(argv: list[str]) -> None:
    """Refuse arguments that are not UTF-8, since requests are UTF-8."""
    for word in argv:
        if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
            from rankd.core.errors import Refused

            raise Refused("usage", f"{os.fsencode(word)!r} is not UTF-8; write it in UTF-8")


def _with_dashes(argv: list[str], short: str, long: str, begins: str) -> list[str]:
    """Join ``-S -p`` to one word: argparse takes a value that starts with a dash for a flag."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] in (short, long) and re.match(begins, word):
            joined[-1] = f"{long}={word}"
        else:
            joined.append(word)
    return joined


_ANY_WIDTH = 80
"""The columns of a help that is not printed."""


def _unprinted(prog: str) -> argparse.HelpFormatter:
    """What argparse checks options with. Its own looks up the terminal's width, whose import takes 3 ms."""
    return argparse.HelpFormatter(prog, width=_ANY_WIDTH)


class _Parser(argparse.ArgumentParser):
    """Prints its errors as one line. The commands' parsers are of this class too."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**given, formatter_class=_unprinted)

    def format_help(self) -> str:
        """The help for the terminal's width."""
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        from rankd.client.option_text import in_plain_words

        joined = re.search(r": ignored explicit argument '(.)", message)  # letters behind one, such as -Nel
        message = self._unknown([f"-{joined[1]}"]) if joined is not None else in_plain_words(message)
        if message.startswith("argument ") and (other := self._others_option()) is not None:
            message = other  # its value was taken for something else, as in `rankd cancel -s TERM 17`
        self.exit(
            USAGE_OF.get(self.prog, USAGE),
            printable(f"{self.prog}: {message}; `{self.prog} --help` shows the options") + "\n",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Like argparse's, but unknown arguments are refused by the command's parser, not by that of ``rankd``."""
        self._given = args or ()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown([self._as_option(word) for word in unknown]))
        return found, unknown

    def _as_option(self, word: str) -> str:
        """The option in an unknown word: of letters that were behind a known one, as in -Nel, the first.

        Python 3.12 and newer list all of these letters as one word that nobody wrote.
        """
        is_joined = word not in self._given and re.match("-[^-]", word) is not None
        return word[:2] if is_joined else word

    def _others_option(self) -> str | None:
        """What is wrong with the first option of Slurm's command that this one does not have; None without one."""
        from rankd.cli.common.slurm_option import slurms

        command = self.prog.partition(" ")[2]
        options = (word for word in self._given if word.startswith("-"))
        unknown = (word for word in options if word.partition("=")[0] not in self._option_string_actions)
        return next((self._unknown([word]) for word in unknown if slurms(command, word) is not None), None)

    def _unknown(self, words: list[str]) -> str:
        """What is wrong with words that no option took. Options of Slurm's command get its equivalent."""
        from rankd.client.option_text import unknown_words
        from rankd.core.near_name import cut

        option = next((word for word in words if word.startswith("-")), None)
        if option is not None:
            from rankd.cli.common.slurm_option import slurms

            if (ours := slurms(self.prog.partition(" ")[2], option)) is not None:
                return f"there is no option {option.partition('=')[0]}: {ours}"
        elif re.match("[0-9]", words[0]) and "-j" in self._option_string_actions:
            word = cut(words[0])
            return f"takes no argument '{word}'; write `{self.prog} -j {word}`, or `rankd show {word}`"
        return unknown_words(words, self._option_string_actions)


def _parser(command: str) -> argparse.ArgumentParser:
    """A parser that knows the one command only."""
    parser = _Parser(prog="rankd")
    subparsers = parser.add_subparsers(required=True)
    _add(subparsers, (COMMANDS | HIDDEN)[command].module)
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """A parser that knows all commands that people use."""
    parser = _Parser(prog="rankd")
    subparsers = parser.add_subparsers(required=True)
    for module in dict.fromkeys(command.module for command in COMMANDS.values()):
        _add(subparsers, module)
    return parser


def _add(subparsers: argparse._SubParsersAction[_Parser], module: str) -> None:
    import_module(f"rankd.cli.{module}").add_parser(subparsers)


def _global_help() -> str:
    lines = ["usage: rankd COMMAND [option ...]", "", "A fair, explainable job queue over NATS."]
    group = ""
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            lines += ["", f"{group}:"]
        lines.append(f"  {name:<12} {command.help}")
    return "\n".join([*lines, "", "`rankd COMMAND --help` shows a command's options; `rankd --version` the version."])


def _unknown(argv: list[str]) -> int:
    from rankd.cli.common.counterpart import counterpart

    word = argv[0]
    if (ours := counterpart(argv)) is not None:
        print(f"rankd: '{word}' is another program's command; {ours}", file=sys.stderr)
        return USAGE
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "`rankd --help` lists the commands"
    print(f"rankd: unknown command '{printable(word)}'; {hint}", file=sys.stderr)
    return USAGE


def _report(error: Exception) -> int:
    """Print errors of rankd's own, one line each. Any other error is a bug and is raised again, with its traceback."""
    from rankd.core.errors import RankdError, Refused

    found = _leaves(error)
    if not all(isinstance(leaf, RankdError) for leaf in found):
        raise error
    for leaf in found:
        print(f"rankd: {printable(str(leaf)) if isinstance(leaf, Refused) else leaf}", file=sys.stderr)
    return max(exit_status(leaf) for leaf in found)


def _leaves(error: Exception) -> list[Exception]:
    """The errors inside an exception group of a service's tasks, or the one error itself."""
    if isinstance(error, ExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def exit_status(error: Exception) -> int:
    """The exit status for an error of rankd's own."""
    if getattr(error, "retryable", False):
        return UNAVAILABLE
    return USAGE if getattr(error, "code", "") in BAD_DOCUMENT else FAILED


def _drop_output() -> None:
    """Discard output that was printed but not written yet.

    Its reader has gone, or may not read any more. Otherwise the interpreter would write it when it ends, and wait.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
