"""``rankd whatif``: what other weights, another configuration or one more job would change, on the live queue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.document import print_answer, read_bytes
from rankd.cli.common.option import add_asker, add_command, limit
from rankd.cli.common.screen import print_line
from rankd.cli.what_if.dump import add_source, live_state
from rankd.cli.what_if.live_answer import live_answer
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rankd.cli.common.option import Subparsers
    from rankd.client.place import Place
    from rankd.config.configuration import Configuration
    from rankd.core.evaluate.document import Document, JobEntry
    from rankd.core.evaluate.result import Ranks, Result
    from rankd.core.evaluate.variation import Variation
    from rankd.core.evaluate.whatif import Landing, WhatIf
    from rankd.core.model.access import AccessList

SHOWN = 20


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    from rankd.cli.services.service_option import weight, whole_value

    text = "What other priorities, another configuration or more jobs would change, computed on the live queue."
    parser = add_command(subparsers, "whatif", run, text)
    parser.add_argument(
        "--weights", nargs="+", type=weight, default=[], metavar="FACTOR=N", help="use these weights, such as age=5000"
    )
    parser.add_argument(
        "--class-value", nargs="+", type=whole_value, default=[], metavar="CLASS=N", help="give these classes other"
        " values, and the waiting jobs of these classes too",
    )  # fmt: skip
    parser.add_argument(
        "--qos", nargs="+", type=whole_value, default=[], metavar="QOS=N", help="give these QoS other priorities"
    )
    parser.add_argument(
        "--offset", nargs="+", type=whole_value, default=[], metavar="QUEUE=N",
        help="give these queues other offsets (`priority.offset`), such as root.batch=-100",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="DIR", help="use this configuration in place of the one in force"
    )
    parser.add_argument(
        "--submit", metavar="JOB.json", help="add these jobs (JSON in the job format); - is standard input"
    )
    parser.add_argument("--limit", type=limit, default=SHOWN, metavar="N", help="show at most N jobs (default: 20)")
    parser.add_argument("--summary", action="store_true", help="only count: no single jobs (default: they are listed)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON on one line")
    add_source(parser, config="--live-config")
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decide the live state with and without the change, and print what differs.

    Raises:
        ConfigurationError: a reload would refuse the other configuration. The error has all reasons.
    """
    from rankd.cli.common.report import over_bus
    from rankd.config.checked import load_checked

    if not (_changes_all(arguments) or arguments.submit):
        message = (
            "give a change: --weights age=2000, --class-value high=2000, --qos high=200, --offset root.batch=-100,"
            " --config DIR, or --submit JOB.json"
        )
        raise Refused("usage", message, "weights")
    if (place := over_bus(arguments)) is not None:
        return _print(_asked(place, arguments), arguments)
    return report(arguments, load_checked(arguments.config) if arguments.config else None)


def _changes_all(arguments: argparse.Namespace) -> bool:
    """Whether the change concerns the jobs that wait."""
    return bool(arguments.weights or arguments.class_value or arguments.qos or arguments.offset or arguments.config)


def _asked(place: Place, arguments: argparse.Namespace) -> WhatIf:
    """The answer, computed by the intake."""
    import msgspec

    from rankd.cli.common.report import fetch_report
    from rankd.config.configuration import read_files
    from rankd.core.evaluate.whatif import WhatIf
    from rankd.wire.report import ReportRequest

    request = ReportRequest(
        kind="whatif",
        weights=dict(arguments.weights),
        summary=arguments.summary,
        classes=dict(arguments.class_value),
        qos=dict(arguments.qos),
        offsets=dict(arguments.offset),
        files=read_files(arguments.config)[0] if arguments.config else None,
        submit=read_bytes(arguments.submit).decode(errors="replace") if arguments.submit else None,
    )
    return msgspec.json.decode(fetch_report(place, arguments, request), type=WhatIf)


def report(arguments: argparse.Namespace, other: Configuration | None) -> int:
    """Compute and print the answer. ``other``: the configuration of ``--config``, already loaded."""
    import msgspec

    from rankd.cli.what_if.dump import dropped_inputs, with_live_inputs
    from rankd.config.evaluation import Evaluator
    from rankd.core.evaluate.diff import moves
    from rankd.core.evaluate.document import decode
    from rankd.core.evaluate.whatif import WhatIf, by_owner, landing, with_jobs, without_inputs

    requests = read_bytes(arguments.submit) if arguments.submit else None
    if other is None and (answer := live_answer(arguments, _variation(arguments), requests)) is not None:
        return _print(answer, arguments)
    found, configuration = live_state(arguments)
    live = decode(msgspec.json.encode(found.document))
    present = live
    if other is not None:
        present = without_inputs(live, dropped_inputs(arguments, configuration, other))
        configuration = with_live_inputs(arguments, other)
    varied = _varied(present, configuration, found.given, arguments)
    new = [] if requests is None else new_jobs(arguments, requests, configuration, live.now)
    before: Result | Ranks
    after: Result | Ranks
    landings = []
    if requests is None:  # then the answer has ranks only
        before, after = Evaluator().ranks(live), Evaluator().ranks(decode(_encoded(varied)))
    else:
        changed_state = with_jobs(varied, new)
        before, decided = Evaluator().evaluate(_encoded(live)), Evaluator().evaluate(_encoded(changed_state))
        landings, after = [landing(entry.id, decided, changed_state) for entry in new], decided
    changed = [move for move in moves(before, after) if move.job not in {entry.id for entry in new}]
    answer = WhatIf(
        generation=found.generation,
        newer=found.newer,
        pending=sum(job.state == "pending" for job in varied.jobs),
        jobs=[] if arguments.summary else changed,
        moved=len(changed),
        owners=by_owner(changed, varied),
        submitted=landings,
        refused=_refused(before, after),
    )
    return _print(answer, arguments)


def _print(answer: WhatIf, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_answer(answer, compact=True)
        return 0
    for one in answer.submitted:
        _print_landing(one)
    if not answer.submitted or _changes_all(arguments):
        _print_moves(answer, arguments.limit)
    for line in answer.refused:
        print_line(f"refused then: {line}")
    return 0


def _varied(
    live: Document, configuration: Configuration, given: Mapping[str, AccessList], arguments: argparse.Namespace
) -> Document:
    from rankd.config.evaluation import queues_document
    from rankd.config.what_if_document import with_configuration
    from rankd.core.evaluate.variation import varied_by

    varied = live
    if arguments.config:
        varied = with_configuration(live, configuration, queues_document(arguments.config), given)
    check_factors(dict(arguments.weights), varied.priority.weights if varied.priority else {})
    return varied_by(varied, _variation(arguments))


def check_factors(wanted: Mapping[str, float], weighted: Mapping[str, float]) -> None:
    """Check that there are factors of all these names.

    Raises:
        Refused: ``usage``.
    """
    from rankd.config.plugin import is_provided

    for name in wanted:
        if not is_provided(name) and name not in weighted:
            known = ", ".join(sorted(weighted)) or "none"
            raise Refused("usage", f"there is no factor '{name}'; weighted now: {known}", "weights")


def _variation(arguments: argparse.Namespace) -> Variation:
    from rankd.core.evaluate.variation import Variation

    return Variation(
        weights=dict(arguments.weights),
        classes=dict(arguments.class_value),
        qos=dict(arguments.qos),
        queues=dict(arguments.offset),
    )


def new_jobs(arguments: argparse.Namespace, requests: bytes, configuration: Configuration, at: float) -> list[JobEntry]:
    """The jobs of ``--submit``, submitted at an instant.

    Raises:
        Refused: ``bad_request``: they are not in the format of jobs.
    """
    import msgspec

    from rankd.cli.common.session import asker
    from rankd.config.what_if_document import job_entries

    try:
        return job_entries(requests, asker(arguments).user, configuration, at, privileged=arguments.admin)
    except msgspec.MsgspecError as error:
        raise Refused("bad_request", f"{arguments.submit}: {error}", "submit") from None


def _encoded(document: Document) -> bytes:
    import msgspec

    return msgspec.json.encode(document)


def _refused(before: Result | Ranks, after: Result | Ranks) -> list[str]:
    already = {row.job for row in before.rejected}
    return [f"job {row.job}: {row.message}" for row in after.rejected if row.job not in already]


def _print_landing(one: Landing) -> None:
    from rankd.cli.common.duration import shown_time

    if one.error is not None:
        print_line(f"{one.job} would be refused: {one.error}")
        return
    if one.rank is None:
        print_line(f"{one.job} would not be ranked yet: {one.reason}.")
        return
    print_line(f"{one.job} would have rank {one.rank} of {one.ranked}, with priority {one.priority}.")
    for row in one.factors:
        print_line(f"  {row.points:14.4f} {row.name} = {row.value:.7f} x {row.weight:g}")
    if one.starts_at is not None:
        print_line(f"It would wait for {', '.join(one.nodes)}, reserved from {shown_time(one.starts_at)} on.")
    elif not one.is_placed:
        print_line("Where it would start is not computed while so many jobs wait.")
    elif one.nodes:
        print_line(f"It would start at once on {', '.join(one.nodes)}.")
    else:
        print_line(f"It would not start at once: {one.reason}.")
    users = [f"{count} of {user or 'nobody'}" for user, count in one.passes.items()]
    passed = ", ".join(users[:SHOWN]) + (f", and those of {len(users) - SHOWN} more users" if users[SHOWN:] else "")
    print_line(f"It would pass {sum(one.passes.values())} jobs{f': {passed}' if passed else ''}.")
    if one.ahead is not None:
        print_line(f"Just above it would be job {one.ahead}.")
    if one.behind is not None:
        print_line(f"Just below it would be job {one.behind}.")


def _print_moves(answer: WhatIf, most: int) -> None:
    from rankd.cli.common.table import Column, print_table
    from rankd.cli.what_if.evaluate import print_moves

    changed = answer.jobs
    against = f"against generation {answer.generation}"
    if answer.newer:
        newer = "1 newer job is" if answer.newer == 1 else f"{answer.newer} newer jobs are"
        against += f"; {newer} not counted; ask again in some seconds"
    print_line(f"{answer.moved or len(changed)} of {answer.pending} pending jobs would change their rank ({against}).")
    if not (answer.moved or changed):
        return
    numeric = [Column(name, numeric=True) for name in ("JOBS", "EARLIER", "LATER", "MEAN", "LARGEST")]
    rows = [
        [
            row.user or "-",
            row.account or "-",
            str(row.jobs),
            str(row.earlier),
            str(row.later),
            f"{row.mean_change:+.1f}",
            f"{row.largest_change:+d}",
        ]
        for row in answer.owners
    ]
    print_table([Column("USER"), Column("ACCOUNT"), *numeric], rows)
    if changed:
        print()
        print_moves(changed[:most])
    total = answer.moved or len(changed)
    if changed and total > most:
        print_line(f"… and {total - most} more: --limit {total} shows all")
