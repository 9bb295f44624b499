"""``rankd demo``: a busy queue with real services, in two minutes. The exit status is 1 if anything went wrong."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankd.cli.common.option import add_command
from rankd.cli.run.demo_screen import Screen, explain
from rankd.cli.run.demo_story import STORY, Wave
from rankd.core.errors import Unavailable
from rankd.identity.credentials import SERVICES_CREDENTIALS
from rankd.plugin.interpreter import python_command, python_environment
from rankd.store.engine.reading import Reader, open_for_reading
from rankd.store.look.demo_state import generation_count, have_all_ended, see_newest, starts_of_jobs, waits_by_user
from rankd.store.look.priority_list import priorities
from rankd.wire.message import JobFilter

if TYPE_CHECKING:
    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers

SIMULATED_NODES = 4
START_PATIENCE_S = 60
PATIENCE_S = 240
EXPLAIN_AT_S = 12.0
LOOK_EVERY_S = 0.5


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers, "demo", run, "Start everything, let four users submit, show the queue as it moves."
    )
    parser.add_argument("--keep", action="store_true", help="keep the demo's directory")


def run(arguments: argparse.Namespace) -> int:
    """Play the story in a directory of its own."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that the processes that were started are stopped
    directory = Path(tempfile.mkdtemp(prefix="rankd-demo-"))
    try:
        return _play(directory)
    except KeyboardInterrupt:
        print("\ndemo: stopped before its end; everything that it started has ended", flush=True)
        raise
    finally:
        if arguments.keep:
            print(f"everything is in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _play(directory: Path) -> int:
    import uvloop

    from rankd.services.web.sign_in_link import read_link

    process = _start(directory)
    try:
        up = _wait_until_up(directory, process)
        print(
            f"up: broker {up['nats']}\n    database {up['db']}\n    processes {', '.join(sorted(up['pids']))}"
            f"\n    page {read_link(directory / 'state' / 'auth') or 'none'}",
            flush=True,
        )
        problems = uvloop.run(_story(up["nats"], Path(up["db"]), Path(up["creds"]).with_name(SERVICES_CREDENTIALS)))
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait()
    if status != 0:
        problems.append(f"rankd up ended with exit status {status}")
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print(f"demo: {_verdict(problems)}", flush=True)
    return 1 if problems else 0


def _verdict(problems: list[str]) -> str:
    if problems:
        return "something went wrong"
    return (
        "every job ran once, and everything has been removed\n"
        "next: `rankd up` starts rankd here; README.md and docs/tutorial.md go on from there"
    )


def _start(directory: Path) -> subprocess.Popen[bytes]:
    from rankd.store.schema.migration import shipped

    config = directory / "config"
    shutil.copytree(shipped("config"), config)
    shutil.copy(config / "examples" / "two-accounts" / "accounts.yaml", config)
    place = ["--dir", str(directory / "state"), "--config", str(config)]
    words = ["up", *place, "--simulate", str(SIMULATED_NODES), "--run-as", "agent"]
    print(f"starting rankd up with {SIMULATED_NODES} simulated nodes in {directory}", flush=True)
    with (directory / "up.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own command
            python_command("rankd", *words),
            env=python_environment(os.environ),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait_until_up(directory: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return dict(json.loads((directory / "state" / "up.json").read_text()))
        except FileNotFoundError:
            time.sleep(0.05)
    raise Unavailable("not_running", f"rankd up did not start:\n{(directory / 'up.log').read_text()}")


async def _story(nats: str, database: Path, credentials: Path) -> list[str]:
    """Submit wave by wave, draw the queue, wait for the end, and print a summary. Returns the problems."""
    from rankd.bus.connection import Bus
    from rankd.identity.credentials import source_of

    expected: list[int] = []
    connection = open_for_reading(database)
    async with Bus(nats, "demo", credentials=source_of(credentials)) as bus:
        with Screen() as screen:
            explained = await _follow(bus, connection, screen, expected)
    print("\n" + "\n".join(_summary(connection)))
    if explained:
        print("\n" + "\n".join(explained))
    print()
    return _problems(connection, expected) + ([] if explained else ["no waiting job could be explained"])


async def _follow(bus: Bus, connection: Reader, screen: Screen, expected: list[int]) -> list[str]:
    import asyncio

    begun, waves, explained = time.monotonic(), list(STORY), list[str]()
    while time.monotonic() - begun < PATIENCE_S:
        elapsed = time.monotonic() - begun
        while waves and waves[0].at_s <= elapsed:
            wave = waves.pop(0)
            screen.tell(wave.telling)
            expected += await _submit(bus, wave)
        see_newest(connection)
        screen.draw(connection)
        if not explained and elapsed > EXPLAIN_AT_S:
            explained = _explained(connection)
        if not waves and have_all_ended(connection):
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return explained


async def _submit(bus: Bus, wave: Wave) -> list[int]:
    """The wave as one message, as the user whom the subject names."""
    from rankd.wire.encoding import encode
    from rankd.wire.message import BatchReply
    from rankd.wire.subject import admin_request, user_request

    subject = (admin_request if wave.privileged else user_request)(wave.user, "job.submit")
    reply = await bus.request(subject, encode({"jobs": wave.jobs, "atomic": True}), BatchReply)
    return [accepted.id for accepted in reply.accepted] + [-1 for _ in reply.rejected]


def _explained(connection: Reader) -> list[str]:
    """The explanation of a waiting job that has fewer points than another user's job just above."""
    rows = [row for row in priorities(connection, JobFilter(limit=40)) if row["rank"]]
    pairs = [
        (row, above)
        for above, row in pairwise(rows)
        if row["user"] != above["user"] and above["priority"] > row["priority"] and not above["override"]
    ]
    if not pairs:
        return []
    return explain(*min(pairs, key=lambda pair: abs(pair[0]["rank"] - len(rows) / 2)))


def _summary(connection: Reader) -> list[str]:
    lines = [f"{'USER':<8}{'JOBS RUN':>9}{'CORE SECONDS':>14}{'MEAN WAIT':>11}{'LONGEST':>9}"]
    lines += [
        f"{own.user:<8}{own.jobs:>9}{own.core_seconds:>14.1f}{own.mean_s:>9.1f} s{own.longest_s:>7.1f} s"
        for own in waits_by_user(connection)
    ]
    generations = generation_count(connection)
    return [*lines, f"{generations.made} generations of the ranking, at most {generations.jobs} jobs in one"]


def _problems(connection: Reader, expected: list[int]) -> list[str]:
    """The problems: every accepted job must run exactly once and complete."""
    if -1 in expected:
        return ["a submission was rejected"]
    jobs = starts_of_jobs(connection)
    problems = [
        f"job {job.id} is {job.state} after {job.starts} starts"
        for job in jobs
        if job.state != "completed" or job.starts != 1
    ]
    lost = set(expected) - {job.id for job in jobs}
    return problems + [f"job {id_} was accepted and is not in the database" for id_ in sorted(lost)]
