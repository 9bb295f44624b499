"""``rankd run``: runs a command as a job and shows it here; ``rankd attach``: joins such a job; ``rankd shell``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

from rankd.bus.lean_import import import_lean
from rankd.cli.common.option import add_asker, add_command, add_place, job_name
from rankd.cli.jobs.run_submission import Submission
from rankd.client.batch.option import add_job_options
from rankd.core.errors import RankdError, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers
    from rankd.cli.jobs.terminal import RawTerminal
    from rankd.client.run_job import Manner, RunningJob

CONNECT_S = 30.0
MOST_TASKS = 128
"""As many sessions as a user may have with a node."""
FAILED = 125
"""The exit status of everything that is not the command's."""
NOT_FOR_RUN = ("array", "file", "wrap", "enqueue", "test_only", "wait", "parsable", "count")
WITHOUT_EFFECT = ("json", "atomic", "ignore_unknown")
INPUT, OUTPUT, ERRORS = 0, 1, 2
SHELL = "exec ${SHELL:-/bin/sh}"
TERMINAL_VARIABLES = ("TERM", "COLORTERM")


def add_parser(subparsers: Subparsers) -> None:
    """Add ``run``, ``attach`` and ``shell``."""
    _add_run(subparsers)
    attach = add_command(
        subparsers,
        "attach",
        run_attach,
        "Join an interactive job (`rankd run --detach-ok`): see its last output, and go on. Ctrl-C goes to the job;"
        " SIGTERM leaves it.",
    )
    attach.add_argument("job", type=job_name, metavar="JOB", help="id of the job")
    attach.add_argument("--no-stdin", action="store_true", help="send no input: look only")
    add_place(attach, broker=True)
    add_asker(attach)
    shell = add_command(
        subparsers,
        "shell",
        run_shell,
        "Start a shell, or a command, in a running job: as its user, in its control group and its directory, with its"
        " environment and its devices. It ends with the job.",
    )
    shell.add_argument("job", type=job_name, metavar="JOB", help="id of the job")
    shell.add_argument("--node", help="on which of the job's nodes (default: the first)")
    shell.add_argument("--pty", action="store_true", help="a terminal also for a command (a shell has one)")
    add_place(shell, broker=True)
    add_asker(shell)
    words = shell.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="a command and its arguments (default: a shell)"
    )
    words.required = False
    shell.set_defaults(parser=shell)


def _add_run(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "run",
        run,
        "Run a command as a job and show here what it prints (srun): rankd run [option ...] -- COMMAND [argument ...]."
        " Ends with the command's exit status; 124 at the time limit, 137 when killed for memory, 125 for all that is"
        " not the command's, 130 after Ctrl-C while the job waits. Inside a job, it runs a step of that job.",
    )
    group = parser.add_argument_group("how it is followed")
    group.add_argument("--pty", action="store_true", help="run it in a terminal, which this one shows")
    group.add_argument("--no-stdin", action="store_true", help="send no input; the command reads an empty one")
    group.add_argument("-l", "--label", action="store_true", help="begin each line with the rank of its node")
    group.add_argument(
        "--detach-ok",
        action="store_true",
        help="let the job run on when this command gets SIGTERM, or its terminal or connection has gone (default: it is"
        " ended)",
    )
    add_job_options(parser, hidden=(*NOT_FOR_RUN, *WITHOUT_EFFECT))
    add_place(parser, broker=True)
    add_asker(parser, "--user", "--as")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="a command and its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run a command as a job, or as a step of the job that this process belongs to."""
    try:
        return _run(arguments)
    except RankdError as error:
        return _failed(error)


def _run(arguments: argparse.Namespace) -> int:
    command = _command(arguments)
    if not command:
        raise Refused("usage", "no command; write `rankd run -- COMMAND ...`", "command")
    if job := os.environ.get("RANKD_JOB_ID"):
        from rankd.cli.common.screen import print_line
        from rankd.cli.jobs.step_option import check_step

        if warning := check_step(arguments):
            print_line(f"rankd: {warning}", error=True)
        from rankd.client.batch.request import of_step

        parts, stdin = _step_parts(arguments), not arguments.no_stdin
        env = of_step(dict(os.environ))
        return _in_job(arguments, int(job), command, pty=arguments.pty, stdin=stdin, parts=parts, env=env, cwd=".")
    for name in NOT_FOR_RUN:
        if getattr(arguments, name):
            option = f"--{name.replace('_', '-')}"
            raise Refused("usage", f"`rankd run` has no {option}; use `rankd submit`", name)
    from rankd.cli.jobs.submit import jobs_of

    arguments.command = ["--", *command]
    [job_request] = jobs_of(arguments)
    job_request |= _interactive(arguments, job_request)
    if arguments.print_request:
        from rankd.cli.common.table import print_json

        print_json(job_request)
        return 0

    submission = Submission(arguments, job_request)
    submission.send_at_socket()
    stdin = not arguments.no_stdin and "stdin" not in job_request
    return _followed(arguments, submission.follow, pty=arguments.pty, stdin=stdin, submission=submission)


def _failed(error: RankdError) -> int:
    """Print the error; returns the exit status. That of a step that could not be started is the one of a shell."""
    from rankd.core.printable import printable
    from rankd.wire.session import COMMAND_NOT_FOUND, NOT_EXECUTABLE

    print(f"rankd: {printable(str(error))}", file=sys.stderr)
    return {COMMAND_NOT_FOUND: 127, NOT_EXECUTABLE: 126}.get(error.code, FAILED)


def _tell(text: str, terminal: RawTerminal | None) -> None:
    """Say how the job ended, where its exit status alone would not tell."""
    from rankd.core.printable import printable

    if terminal is not None:
        terminal.restore()
    print(f"rankd: {printable(text)}", file=sys.stderr)


def _interactive(arguments: argparse.Namespace, job: dict[str, Any]) -> dict[str, Any]:
    """The fields that make a job one that is followed. It is not queued again unless that is asked for."""
    from rankd.cli.jobs.terminal import size_of

    rows, columns = size_of(OUTPUT)
    has_input = not arguments.no_stdin and "stdin" not in job
    wanted = {"pty": arguments.pty, "input": has_input, "rows": rows, "columns": columns}
    more = {"interactive": wanted | {"detach_ok": arguments.detach_ok}, "requeue": bool(arguments.requeue)}
    if arguments.pty:
        more["env"] = _of_terminal() | job.get("env", {})
    return more


def _of_terminal() -> dict[str, str]:
    return {name: os.environ[name] for name in TERMINAL_VARIABLES if name in os.environ}


def run_attach(arguments: argparse.Namespace) -> int:
    """Join a job."""

    async def follow(job: RunningJob) -> int:
        return await job.attach(arguments.job)

    return _followed(arguments, follow, pty=_is_terminal(), stdin=not arguments.no_stdin, stays=True)


def run_shell(arguments: argparse.Namespace) -> int:
    """Start a shell or a command in a job."""
    if arguments.command[:1] != ["--"]:
        options, words = _options_first(arguments.command, arguments.parser)
        arguments.command = []
        arguments = arguments.parser.parse_args([*options, str(arguments.job), *words], arguments)
    command = _command(arguments)
    pty = arguments.pty or (not command and _is_terminal())
    return _in_job(arguments, arguments.job, command or ["/bin/sh", "-c", SHELL], pty=pty, stdin=True, parts=(1, None))


def _options_first(words: list[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """The options before the command, with their values, and the rest: argparse leaves all of it to the command."""
    options, rest = list[str](), list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        options.append(rest.pop(0))
        action = parser._option_string_actions.get(options[-1])  # noqa: SLF001 - argparse has no other list of them
        if action is not None and action.nargs is None and rest:
            options.append(rest.pop(0))
    return options, rest


def _step_parts(arguments: argparse.Namespace) -> tuple[int | None, int | None]:
    """On how many of the job's nodes a step runs (``-N``), and how many tasks it has (``-n``).

    Raises:
        Refused: ``usage``: more than the job has.
    """
    most = int(os.environ.get("RANKD_NNODES", "1"))
    nodes, tasks = None, arguments.tasks
    if arguments.nodes is not None:
        from rankd.client.batch.request import parse_nodes

        nodes = parse_nodes(arguments.nodes)[0]
        if nodes > most:
            has, may = ("1 node", "leave out -N") if most == 1 else (f"{most} nodes", f"give -N 1 to {most}")
            raise Refused("usage", f"this job has {has}, not {nodes}; {may}", "nodes")
    if tasks is not None and not 1 <= tasks <= MOST_TASKS:
        raise Refused("usage", f"a step has 1 to {MOST_TASKS} tasks, not {tasks}", "tasks")
    return nodes, tasks


def _in_job(
    arguments: argparse.Namespace,
    job: int | str,
    command: list[str],
    *,
    pty: bool,
    stdin: bool,
    parts: tuple[int | None, int | None],
    env: dict[str, str] | None = None,
    cwd: str | None = None,
) -> int:
    """Run a command in a job. ``env`` is added to the job's environment; ``cwd`` None: the job's directory."""
    from rankd.cli.jobs.terminal import size_of
    from rankd.client.interaction import Parts
    from rankd.wire.session import JobAttach, Step

    rows, columns = size_of(OUTPUT)
    env = (env or {}) | (_of_terminal() if pty else {})
    if parts[1] is not None:
        env |= {"SLURM_NTASKS": str(parts[1]), "SLURM_PROCID": "0"}
    cwd = getattr(arguments, "chdir", None) or cwd
    cwd = None if cwd is None else os.path.abspath(cwd)  # noqa: PTH100 - pathlib costs 10 ms at start
    step = Step(command=command, pty=pty, env=env, cwd=cwd, begins=True)
    node = getattr(arguments, "node", None)
    wish = JobAttach(id=job, stdin=stdin, node=node, rows=rows, columns=columns, step=step)
    is_within = os.environ.get("RANKD_JOB_ID") == str(job)

    def follow(running: RunningJob) -> Coroutine[Any, Any, int]:
        return running.step(wish, Parts(*parts), is_within=is_within)

    return _followed(arguments, follow, pty=pty, stdin=stdin)


def _command(arguments: argparse.Namespace) -> list[str]:
    words = list(arguments.command)
    return words[1:] if words[:1] == ["--"] else words


def _is_terminal() -> bool:
    return os.isatty(INPUT) and os.isatty(OUTPUT)


def _followed(
    arguments: argparse.Namespace,
    follow: Callable[[RunningJob], Coroutine[Any, Any, int]],
    *,
    pty: bool,
    stdin: bool,
    stays: bool = False,
    submission: Submission | None = None,
) -> int:
    """Follow a job in an event loop, with this process's signals and terminal. Submit it first, if there is one."""
    gc.disable()
    import_lean()
    import asyncio

    from rankd.cli.common.place import find
    from rankd.cli.common.session import asker
    from rankd.cli.jobs.following import Signals
    from rankd.cli.jobs.terminal import RawTerminal
    from rankd.client.channel import BusChannel
    from rankd.client.interaction import Ends
    from rankd.client.run_job import RunningJob
    from rankd.client.session import connecting

    place, who = find(arguments), asker(arguments)
    terminal = RawTerminal(INPUT) if pty else None
    manner = _manner(arguments, terminal, stdin=stdin, stays=stays)

    async def action(bus: Bus) -> int:
        job = RunningJob(bus, who, Ends(INPUT if stdin else None, OUTPUT, ERRORS), manner)
        with Signals(job, terminal, pty=pty) as signals:
            following = asyncio.get_running_loop().create_task(follow(job))
            await asyncio.sleep(0)  # it knows the job now
            for number in submission.early.arrived if submission else ():
                signals.happened(number)
            return await following

    sys.stdout.flush()
    try:
        with connecting(place, connect_timeout_s=CONNECT_S) as (bus, runner):
            gc.freeze()  # what was imported lives to the end
            gc.enable()
            if submission is not None:
                submission.send(BusChannel(bus, who, runner))
            return runner.run(action(bus))
    except RankdError as error:
        if terminal:
            terminal.restore()
        return _failed(error)
    finally:
        if terminal:
            terminal.restore()


def _manner(arguments: argparse.Namespace, terminal: RawTerminal | None, *, stdin: bool, stays: bool) -> Manner:
    from rankd.cli.jobs.following import StatusLine
    from rankd.cli.jobs.terminal import size_of
    from rankd.client.run_job import Manner

    rows, columns = size_of(OUTPUT)
    return Manner(
        pty=terminal is not None,
        has_input=stdin,
        rows=rows,
        columns=columns,
        labels=getattr(arguments, "label", False),
        stays=stays or getattr(arguments, "detach_ok", False),
        say=StatusLine().say,
        tell=lambda text: _tell(text, terminal),
        on_begin=terminal.make_raw if terminal else lambda: None,
    )
