"""``rankd replay``: shows a past cycle of the scheduler again, from the records: input, decision, reasons."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, limit
from rankd.cli.common.screen import print_line
from rankd.cli.what_if.dump import add_moment, add_source, instant, state_at

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.core.evaluate.replay import Replay, ReplayedJob
    from rankd.store.engine.reading import Reader

SHOWN = 20


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Show a past cycle of the scheduler again, from the records: what it knew, what it decided, and why."
    parser = add_command(subparsers, "replay", run, text)
    add_moment(parser, required=True)
    parser.add_argument("--limit", type=limit, default=SHOWN, metavar="N", help="show at most N jobs (default: 20)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON on one line")
    add_source(parser)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decide again, and print."""
    import msgspec

    from rankd.cli.common.document import print_answer
    from rankd.cli.common.report import fetch_report, over_bus
    from rankd.core.evaluate.replay import Replay

    arguments.at = instant(arguments.at, time.time())
    if (place := over_bus(arguments)) is not None:
        from rankd.wire.report import ReportRequest

        request = ReportRequest(kind="replay", at=arguments.at)
        found = msgspec.json.decode(fetch_report(place, arguments, request), type=Replay)
    else:
        found = _replay(arguments)
    if arguments.json:
        print_answer(found, compact=True)
    else:
        _print(found, arguments.limit)
    return 0


def _replay(arguments: argparse.Namespace) -> Replay:
    from rankd.cli.common.place import find
    from rankd.store.engine.reading import open_for_reading

    connection = open_for_reading(find(arguments).need_database())
    try:
        return _of(connection, arguments)
    finally:
        connection.close()


def _of(connection: Reader, arguments: argparse.Namespace) -> Replay:
    import msgspec

    from rankd.config.evaluation import Evaluator
    from rankd.core.evaluate.document import decode
    from rankd.core.evaluate.replay import Instant, replay
    from rankd.store.look.moment import find_moment
    from rankd.store.look.recorded_cycle import started_in

    moment = find_moment(connection, arguments.at)
    found, _ = state_at(connection, arguments, moment)
    data = msgspec.json.encode(found.document)
    started = None if moment.cycle is None else started_in(connection, moment.cycle, moment.generation)
    about = Instant(
        at=moment.now,
        cycle=moment.cycle,
        generation=moment.generation,
        ranked_at=moment.base["at"],
        event=moment.revision,
        notes=[*found.notes, *(f"job {job} is as it was updated later" for job in found.updated)],
    )
    return replay(about, decode(data), Evaluator().evaluate(data), started)


def _print(found: Replay, most: int) -> None:
    from rankd.cli.common.duration import shown_time

    about = found.instant
    what = f"Cycle {about.cycle}" if about.cycle is not None else "A cycle"
    print_line(
        f"{what} at {shown_time(about.at)}, by generation {about.generation} of {shown_time(about.ranked_at)},"
        f" after event {about.event}."
    )
    weights = ", ".join(f"{name} {weight:g}" for name, weight in found.weights.items())
    print_line(f"Policy {found.policy}{f' ({weights})' if weights else ''}, backfill {found.backfill}.")
    nodes = f"{found.nodes_up} of {found.nodes} nodes were up"
    print_line(f"{_jobs(found.waiting)} waited, and {found.running} ran. {nodes}.")
    print()
    _print_started(found)
    for one in found.reservations:
        print_line(f"Nodes kept for job {one.name}: {', '.join(one.nodes)}, from {shown_time(one.starts_at)} on.")
    _print_waiting([job for job in found.jobs if job.reason is not None], most)


def _print_started(found: Replay) -> None:
    from rankd.cli.common.table import Column, print_table

    verdict = {
        None: "It is not recorded that a cycle started jobs then. It would have started",
        True: "As recorded, it",
    }
    begin = verdict.get(found.as_recorded, "NOT as recorded (see `recorded` in --json): it")
    started = "" if found.as_recorded is None else " started"
    print_line(f"{begin}{started} {_jobs(len(found.started))}{':' if found.started else '.'}")
    if found.started:
        ranks = {job.id: job for job in found.jobs}
        rows = [[one.name, *_place(ranks.get(one.job)), ",".join(one.nodes)] for one in found.started]
        print_table(
            [Column("JOB"), Column("RANK", numeric=True), Column("PRIORITY", numeric=True), Column("NODES")], rows
        )
    print()


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _place(job: ReplayedJob | None) -> list[str]:
    return ["-", "-"] if job is None else [_cell(job.rank), str(job.priority)]


def _cell(number: int | None) -> str:
    return "-" if number is None else str(number)


def _print_waiting(waiting: Sequence[ReplayedJob], most: int) -> None:
    from rankd.cli.common.table import Column, print_table

    if not waiting:
        return
    rows = [[job.name, job.user or "-", *_place(job), job.reason or "-"] for job in waiting[:most]]
    numeric = [Column(name, numeric=True) for name in ("RANK", "PRIORITY")]
    print_table([Column("WAITS"), Column("USER"), *numeric, Column("REASON")], rows)
    if len(waiting) > most:
        print_line(f"… and {len(waiting) - most} more: --limit {len(waiting)} shows all")
