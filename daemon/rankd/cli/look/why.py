"""``rankd why JOB``: explains in words why a job has its rank, and why it does not run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankd.cli.common.duration import in_local_time, shown_duration, shown_time
from rankd.cli.common.option import add_asker, add_command, add_place, job_name
from rankd.cli.common.record_source import open_source
from rankd.cli.common.screen import print_line
from rankd.cli.look.outcome_line import used, waited
from rankd.core.errors import Unavailable
from rankd.core.model.array import shown_name
from rankd.core.model.nodelist import fold
from rankd.core.model.signal_name import name_of_signal
from rankd.core.model.wait_word import WAITED
from rankd.core.words import DECISIONS, OVERRIDES, REASONS, STATES

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.core.evaluate.document import Document
    from rankd.core.evaluate.gap import Gap, Way
    from rankd.core.evaluate.result import Result

_SIDES = {"above": "Just above", "above_other": "The next above of another user", "below": "Just below"}
SHOWN = 5
"""The most nodes that are listed."""
LEAST_WAIT_S = 1.0
"""What a job has waited for less is not worth a line while it waits."""

_CAUSES = {
    "later jobs": (
        "{} job that was submitted later ran before it or beside it",
        "{} jobs that were submitted later ran before it or beside it",
    ),
    "longer runs": ("{} job ran longer than its time limit", "{} jobs ran longer than their time limits"),
    "lost nodes": ("{} node was lost or drained", "{} nodes were lost or drained"),
    "order": ("other jobs went first, since priorities changed",) * 2,
}
"""What delayed a job, with the number of jobs or nodes: one, or several."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(subparsers, "why", run, "Explain a job's rank, why it does not run yet, and how it ended.")
    parser.add_argument("job", type=job_name, metavar="JOB", help="id of the job, or of a task: 17_3")
    gap = "also print what would put the job before the one above, and before the next one of another user"
    parser.add_argument("--gap", action="store_true", help=gap)
    parser.add_argument(
        "--live-config",
        type=Path,
        metavar="DIR",
        help="with --gap: the configuration to use (default: the one in force)",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    add_place(parser, looks=True)
    add_asker(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask and explain."""
    answer, gaps = _with_gaps(arguments) if arguments.gap else (open_source(arguments).why(arguments.job), {})
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(answer | gaps)
    else:
        sides = _sides(answer)
        for line in [*explained(answer), *(line for side, gap in gaps.items() for line in closing(gap, sides[side]))]:
            print_line(line)
    return 0


def _with_gaps(arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Gap]]:
    """The answer, and what would close the gaps. Computed here, or by the intake if there is no database here."""
    from rankd.cli.common.report import fetch_report, over_bus

    if (place := over_bus(arguments)) is None:
        answer = open_source(arguments).why(arguments.job)
        return answer, _gaps(answer, arguments)
    import msgspec

    from rankd.core.evaluate.gap import Gap
    from rankd.wire.report import ReportRequest

    answer = msgspec.json.decode(fetch_report(place, arguments, ReportRequest(kind="gap", job=arguments.job)))
    found = {name: answer.pop(name) for name in ("gap", "gap_other") if name in answer}
    return answer, {name: msgspec.convert(gap, Gap) for name, gap in found.items()}


def _gaps(answer: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Gap]:
    """``gap`` to the job above, and ``gap_other`` to the next one of another user. A missing job has no entry."""
    others = {name: side["id"] for name, side in _sides(answer).items()}
    if not others:
        return {}
    import msgspec

    from rankd.cli.what_if.dump import live_state
    from rankd.config.evaluation import Evaluator
    from rankd.core.evaluate.document import decode
    from rankd.core.evaluate.gap import find_ways

    found, _ = live_state(arguments)
    document, evaluator = decode(msgspec.json.encode(found.document)), Evaluator()
    ranked = {job.id for job in document.jobs}
    if missing := [row for row in (answer, *_sides(answer).values()) if row["id"] not in ranked]:
        message = f"job {_job(missing[0])} came after the last full ranking; ask again in some seconds"
        raise Unavailable("no_generation", message)

    def decide(varied: Document) -> Result:
        return evaluator.evaluate(msgspec.json.encode(varied))

    return {name: find_ways(document, answer["id"], other, decide) for name, other in others.items()}


def _sides(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The jobs to which there may be a gap, by the name of the gap."""
    sides = {"gap": answer["above"], "gap_other": answer.get("above_other")}
    return {name: side for name, side in sides.items() if side is not None and not side.get("gone")}


def _job(row: dict[str, Any]) -> str:
    """How people name it: ``17``, or ``17_3`` for a task."""
    return shown_name(row["id"], row.get("array_job"), row.get("array_task"), None, None)


def closing(gap: Gap, other: dict[str, Any]) -> list[str]:
    """The ways to get before the other job, in words: those that are enough, then the others with what is missing."""
    among = "only these two compared" if gap.jobs == 2 else f"all {gap.jobs} waiting jobs compared"
    close = [f"  {_way(way)}: its priority would be {way.priority}" for way in gap.ways if way.closes]
    short = [f"  not {_way(way)}: {way.priority}, {_behind(way)}" for way in gap.ways if not way.closes]
    found = "would" if close else "nothing that was tried would"
    return [f"What would put it before job {_job(other)} ({among}): {'' if close else found}".rstrip(), *close, *short]


def _behind(way: Way) -> str:
    """Why that is not enough. Between queues and between applications, the jobs' priorities don't decide alone."""
    if way.short > 0:
        return f"{way.short} short"
    if way.short == 0:
        return "equal, and still behind"
    return "more than the other's, but its queue or application is behind"


def _way(way: Way) -> str:
    amount = way.amount or 0.0
    if way.kind == "time":
        return f"{'' if way.closes else 'even '}in {shown_duration(amount)}, if nothing else happens"
    if way.kind == "usage":
        after = f", which takes {shown_duration(way.seconds)} without running" if way.seconds is not None else ""
        return f"with {amount:.0%} of its user's usage left{after}"
    return f"with {'QoS' if way.kind == 'qos' else way.kind} {way.what}"


def explained(answer: dict[str, Any]) -> list[str]:
    """The answer in words."""
    name = f"Job {_job(answer)} of {answer['user']} in {answer['queue']}"
    if answer["state"] != "pending":
        use = used(answer)
        first = f"{name} {_state(answer)}{f'; {use}' if use else ''}. Only waiting jobs have a place in the queue."
        return [first, *waited(answer), *_late(answer)]
    if answer.get("generation") is not None and not answer["rank"]:
        first = f"{name} has no rank: only jobs that may start now are ranked."
        priority = f"Its priority is {answer['priority']} (generation {answer['generation']})."
        return [first, *_reason(answer), *_waiting(answer), priority, *_sum(answer), *_queues(answer)]
    return [*_place(name, answer), *_queues(answer), *_neighbours(answer), *_reason(answer), *_waiting(answer)]


def _waiting(answer: dict[str, Any]) -> list[str]:
    """What it has waited for so far, if that is more than one thing: the reason says what it waits for now."""
    causes = [name for name in WAITED if (answer.get(name) or 0.0) >= LEAST_WAIT_S]
    return waited(answer) if len(causes) > 1 else []


def _reason(answer: dict[str, Any]) -> list[str]:
    """Why a waiting job does not run, what to do about that, and what is reserved for it."""
    reason, lines = answer["reason"], []
    if reason:
        fact = f": {in_local_time(answer['reason_fact'])}" if answer["reason_fact"] else ""
        lines.append(f"It does not run because {REASONS.get(reason, reason)}{fact}.")
        lines += _advice(answer)
        lines += _lacking(answer.get("lacks") or [])
    if answer.get("expected_start_at"):
        nodes, at = fold(answer["reserved_nodes"]), shown_time(answer["expected_start_at"])
        lines.append(f"{nodes} is reserved for it: it starts at {at} at the latest.")
    return lines


def _advice(answer: dict[str, Any]) -> list[str]:
    """What the user can do about the reason."""
    if answer["reason"] == "held":
        return [_release(answer)]
    if answer["reason"] == "dependency never satisfied":
        job = _job(answer)
        return [f"`rankd update {job} --dependency …` changes what it waits for, `rankd cancel {job}` cancels it."]
    return []


def _state(answer: dict[str, Any]) -> str:
    """The state of a job that does not wait, and how it ended."""
    shown = STATES.get(answer["state"], f"is {answer['state']}")
    where = f" on {answer['nodelist']}" if answer["nodelist"] else ""
    status = f" with exit status {answer['exit_status']}" if answer.get("exit_status") else ""
    if answer.get("signal") and answer["state"] == "failed":
        status = f" with signal {name_of_signal(answer['signal'])}"
    told = (answer.get("message") or "").removeprefix(f"{shown.removeprefix('was ')}: ")
    message = f": {told}" if told else ""
    return f"{shown}{where}{status}{message}{_by(answer)}"


def _late(answer: dict[str, Any]) -> list[str]:
    """By how much the job started later than a range said, and what held the room meanwhile."""
    late = answer.get("late")
    if not late:
        return []
    between = f"between {shown_time(late['early'])} and {shown_time(late['late'])}"
    said = f"the forecast of {shown_time(late['made_at'])} said {between}"
    lines = [f"It started {shown_duration(late['delay_s'])} later than foreseen: {said}."]
    for cause in late["causes"]:
        named = f" ({', '.join(cause['named'])}{', …' if cause['count'] > len(cause['named']) else ''})"
        what = _CAUSES[cause["kind"]][cause["count"] != 1].format(cause["count"]) + (named if cause["named"] else "")
        lines.append(f"  {cause['part'] * 100:.0f} % ({shown_duration(cause['part_s'])}): {what}")
    return lines


def _by(answer: dict[str, Any]) -> str:
    """Who cancelled the job, and when. The message is about a job that rankd itself has cancelled."""
    if answer["state"] != "cancelled" or answer.get("ended_at") is None:
        return ""
    by = answer.get("cancelled_by")
    who = "," if answer.get("message") else f" by {by}" if by else ""
    return f"{who} at {shown_time(answer['ended_at'])}"


def _release(answer: dict[str, Any]) -> str:
    if answer.get("held_by") in (None, answer["user"]):
        return f"`rankd release {_job(answer)}` lets it start."
    return "Only an administrator can release it."


def _lacking(found: list[dict[str, Any]]) -> list[str]:
    """What nodes lack, for those that lack least, and the number of the other nodes."""
    shown = [f"  {lack['node']} {_lack(lack)}" for lack in found[:SHOWN]]
    return shown + ([f"  and {len(found) - SHOWN} more nodes have no room"] if len(found) > SHOWN else [])


def _lack(lack: dict[str, Any]) -> str:
    if lack["occupied"]:
        return "is in use"
    taken = f" ({'; '.join(lack['taken'])})" if lack.get("taken") else ""
    return f"lacks {', '.join(f'{kind} {amount:g}' for kind, amount in lack['amounts'].items())}{taken}"


def _place(name: str, answer: dict[str, Any]) -> list[str]:
    if answer.get("generation") is None:
        return [f"{name} is not ranked yet."]
    place = f"rank {answer['rank']} of {answer['of']}"
    first = f"{name} has {place} (generation {answer['generation']}), priority {answer['priority']}."
    return [first, *_sum(answer)]


def _sum(answer: dict[str, Any]) -> list[str]:
    """The parts of the priority."""
    lines = []
    if answer["override"]:
        by = f" by {answer['override_by']}" if answer["override_by"] else ""
        why = OVERRIDES.get(answer["override"], answer["override"])
        lines.append(f"The sum below does not count, because {why}{by}.")
    lines.append(f"  {answer['class_value']:>14} class value")
    lines += [
        f"  {factor['points']:>14.4f} {factor['name']} = {factor['value']:.7f} x {factor['weight']:g}"
        for factor in answer["factors"]
        if factor["points"] is not None
    ]
    if answer["points_sum"] is not None:
        lines.append(f"  {answer['points_sum']:>14.4f} sum of the points, cut to a whole number")
    return lines


def _queues(answer: dict[str, Any]) -> list[str]:
    """How the fences and offsets of the queues above change the priority."""
    lines = []
    for row in answer["path"]:
        if row["shows"] == row["without"]:
            continue
        parent = row["queue"].rpartition(".")[0]
        fenced = row["policy"] == "fence"
        by = f"the fence of {row['queue']}" if fenced else f"the offset {row['offset']:+d} of {row['queue']}"
        effect = "lowers" if row["shows"] < row["without"] else "raises"
        lines.append(f"In {parent}, {by} {effect} its priority from {row['without']} to {row['shows']}.")
    return lines


def _neighbours(answer: dict[str, Any]) -> list[str]:
    lines = []
    for side, place in _SIDES.items():
        other = answer.get(side)
        if other is None or other.get("gone"):
            continue
        first = answer if side == "below" else other
        subject = f"{place} is job {_job(other)} of {other['user'] or 'another user'} with {other['priority']}"
        why = _decision(other["decided_by"], first)
        lines.append(f"{subject} ({other['difference']:+d}). Job {_job(first)} goes first because {why}.")
        lines += _meeting(answer, other) if other["decided_by"] == "queue" else []
        parts = [f"{name} {points:+.2f}" for name, points in other["parts"].items() if abs(points) >= 0.005]
        if parts:
            lines.append(f"  difference in points: {', '.join(parts)}")
    if answer["rank"] == 1:
        lines.append("No job is above it.")
    return lines


def _meeting(answer: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The priorities that two queues show to the queue above both."""
    meets = other["meets"]
    if meets is None:
        return []
    mine, its = (f"{row['queue']} shows {row['shows']}" for row in (meets["this"], meets["other"]))
    return [f"  in {meets['queue']}, {mine} for job {_job(answer)}, and {its} for job {_job(other)}"]


def _decision(decided_by: str, first: dict[str, Any]) -> str:
    """Why the first of two neighbours goes first. ``first`` has its ``override``."""
    override = first.get("override")
    if decided_by != "override" or override is None:  # hidden, of another user's job
        return DECISIONS["priority" if decided_by == "override" else decided_by]
    return OVERRIDES.get(override, str(override))
