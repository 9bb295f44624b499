"""``rankd show``: everything about a job; ``rankd history``: its events."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from rankd.cli.common.duration import in_local_time, shown_duration, shown_time
from rankd.cli.common.freshness import say
from rankd.cli.common.layout import Field, column_of, table_rows
from rankd.cli.common.option import add_asker, add_command, add_jobs, add_output, add_place, job_name
from rankd.cli.common.record_source import open_source
from rankd.cli.common.screen import print_line
from rankd.cli.common.table import Column, print_json, print_table
from rankd.cli.look.outcome_line import short_time
from rankd.cli.look.queue import shown_nodes
from rankd.core.errors import Refused
from rankd.core.model.amount_text import shown_all
from rankd.core.model.array import parse_name
from rankd.core.model.id_range import apart, written_range
from rankd.core.model.index_set import each
from rankd.core.model.job import Event
from rankd.core.model.wait_word import WAITED
from rankd.wire.page import JobList

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rankd.cli.common.option import Subparsers
    from rankd.cli.common.record_source import Source
    from rankd.store.engine.reading import Row

MOST_SHOWN = 1_000
"""Jobs that one command shows: each is a request of its own."""

FIRST = ("id", "name", "user", "account", "queue", "partition", "qos", "state", "reason", "reason_fact")
"""The fields that are printed first. The others follow by name."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``show`` and ``history``."""
    show = add_command(
        subparsers,
        "show",
        run_show,
        "Show everything about a job: its request, its state, its priority and its result.",
    )
    add_jobs(show, several="+")
    show.add_argument("--json", action="store_true", help="print JSON (a list for several jobs)")
    show.add_argument("--env", action="store_true", help="also print the environment of a job of yours")
    show.add_argument("--script", action="store_true", help="print the script of a job of yours, and nothing else")
    add_place(show, looks=True)
    add_asker(show)
    history = add_command(subparsers, "history", run_history, "The events of a job, oldest first.", dash_h=False)
    history.add_argument("job", type=job_name, metavar="JOB", help="id of the job, or of a task: 17_3")
    add_output(history, "-h")
    add_place(history, looks=True)
    add_asker(history)


def run_show(arguments: argparse.Namespace) -> int:
    """Print the records. What can't be shown is an error; the rest is shown all the same."""
    source = open_source(arguments)
    jobs, errors = _named(source, [name for group in arguments.job for name in group])
    is_list = len(jobs) + len(errors) > 1
    look: Callable[[int | str], Any] = source.script if arguments.script else source.job
    found: dict[int | str, Any] = {}
    for job in jobs:
        try:
            found[job] = look(job)
        except Refused as error:
            errors.append(error)
    if errors and not is_list:
        raise errors[0]
    if arguments.script:
        _print_scripts(list(found.items()), as_json=arguments.json, is_list=is_list)
    else:
        _print_records(arguments, source, list(found.values()), is_list=is_list)
    for refused in errors:
        print_line(f"rankd: {refused}", error=True)
    return 1 if errors else 0


def _print_records(arguments: argparse.Namespace, source: Source, records: list[Row], *, is_list: bool) -> None:
    if arguments.json:
        print_json(records if is_list else records[0])
        return
    say(source.known.of_nodes(node for record in records if not record["ended_at"] for node in shown_nodes(record)))
    for place, record in enumerate(records):
        if place:
            print()
        _print_record(record, with_environment=arguments.env)


def _named(source: Source, names: Iterable[int | str]) -> tuple[list[int | str], list[Refused]]:
    """Each job, array and task that these names mean, and the errors of those that mean nothing.

    Raises:
        Refused: ``too_many``.
    """
    found: dict[int | str, None] = {}
    errors: list[Refused] = []
    for name in names:
        try:
            found |= dict.fromkeys(_meant(source, name))
        except Refused as error:
            errors.append(error)
        if len(found) > MOST_SHOWN:
            raise Refused("too_many", f"at most {MOST_SHOWN:,} jobs can be shown at once; name fewer", "job")
    return list(found), errors


def _meant(source: Source, name: int | str) -> list[int | str]:
    """Each job, array and task that a name means; of too many, only as many as can be shown, and one more.

    Raises:
        Refused: ``unknown_job``: there is no job in a range.
    """
    named = apart([name])
    found = [single for one in named.names for single in _singles(one)]
    for ids in named.ranges:
        wanted = JobList(ids=[written_range(ids)], tasks=False, limit=MOST_SHOWN + 1)
        jobs: list[int | str] = [row["id"] for row in source.jobs(wanted)]
        if not jobs:
            raise Refused("unknown_job", f"there is no job in {written_range(ids)}", "id", status=404)
        found += jobs
    return found


def _singles(name: int | str) -> Iterator[int | str]:
    """A job, or each of the tasks that a name means; of too many, only as many as can be shown, and one more."""
    parsed = parse_name(name)
    if not parsed.indices:
        yield parsed.job
    yield from islice((f"{parsed.job}_{task}" for task in each(parsed.indices)), MOST_SHOWN + 1)


def _print_scripts(scripts: list[tuple[int | str, str]], *, as_json: bool, is_list: bool) -> None:
    """Print scripts as they are. Control characters other than line ends are escaped on a terminal."""
    if as_json:
        found = [{"id": job, "script": text} for job, text in scripts]
        print_json(found if is_list else found[0])
    for _, text in [] if as_json else scripts:
        print(text, end="" if text.endswith("\n") else "\n")


def _print_record(record: Row, *, with_environment: bool) -> None:
    environment = record.get("env") or {}
    if environment and not with_environment:
        record["env"] = f"{len(environment)} variable{'' if len(environment) == 1 else 's'}; --env prints them"
    breakdown, failed = record.pop("priority_breakdown", None), record.pop("failed_notifications", None)
    steps, step_count = record.pop("steps", None), record.pop("step_count", 0)
    order = [*FIRST, *sorted(record.keys() - set(FIRST))]
    shown = [(name, _shown(name, record[name])) for name in order if record.get(name) not in (None, "", [], {})]
    width = max(len(name) for name, _ in shown)
    for name, text in shown:
        print_line(f"{name:<{width}}  {text}")
    for one in failed or ():
        print_line(failure(one))
    if breakdown:
        _print_breakdown(breakdown)
    if steps:
        from rankd.cli.look.step_table import print_steps

        print_steps(steps, step_count)


def failure(one: Row) -> str:
    """What became of a notification that did not arrive.

    >>> given_up = {"event": "fail", "target": "mailto:a@b.org", "problem": "no such user", "dead_letter": 3}
    >>> failure(given_up)
    'notification of fail to mailto:a@b.org was given up: no such user; `rankd deadletter retry 3` sends it again'
    """
    what = f"notification of {one['event']} to {one['target']}"
    if one["dead_letter"] is not None:
        again = f"`rankd deadletter retry {one['dead_letter']}` sends it again"
        return f"{what} was given up: {one['problem']}; {again}"
    times = f"{one['attempts']} time{'' if one['attempts'] == 1 else 's'}"
    return f"{what} failed {times}: {one['problem']}; it is sent again at {shown_time(one['again_at'])}"


def _command(words: list[str]) -> str:
    import shlex

    return shlex.join(words)


_IN_WORDS: Mapping[str, Callable[[Any], str]] = {
    "command": _command,
    "resources": shown_all,
    "reason_fact": in_local_time,
    **dict.fromkeys(WAITED, short_time),
}


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON
    if name.endswith("_at"):
        return shown_time(value)
    if name.endswith("_limit_s"):
        return shown_duration(value)
    if name in _IN_WORDS:
        return _IN_WORDS[name](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)


def _print_breakdown(breakdown: Row) -> None:
    rank = "not ranked" if breakdown["rank"] is None else f"rank {breakdown['rank']}"
    override = f", {breakdown['override']}" if breakdown["override"] else ""
    print(f"\npriority {breakdown['priority']} ({rank}, generation {breakdown['generation']}{override})")
    rows = [["class", "", "", str(breakdown["class_value"])]]
    rows += [
        [factor["name"], _number(factor["value"]), f"{factor['weight']:g}", _number(factor["points"])]
        for factor in breakdown["factors"]
    ]
    print_table([Column("FACTOR"), Column("VALUE", True), Column("WEIGHT", True), Column("POINTS", True)], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.7f}"


def _detail(name: str) -> Callable[[Row], Any]:
    """A field of the event's detail, such as generation, rank or allocation. Empty if the event lacks it."""
    return lambda row: (row["detail"] or {}).get(name, "")


def _actor(row: Row) -> str:
    """Who caused the event, and the gateway that vouched for that user."""
    via = (row["detail"] or {}).get("via")
    return f"{row['actor']} via {via}" if via else str(row["actor"])


def _changes(row: Row) -> str:
    """The changes of an update: ``urgency 16 -> 10, queue root.a -> root.b``. Of a signal: ``signal USR1``."""
    if row["event"] == Event.SIGNAL and (signal := (row["detail"] or {}).get("signal")):
        return f"signal {signal}"
    if row["event"] != Event.UPDATE:
        return ""
    detail = (row["detail"] or {}).items()
    pairs = [(name, pair) for name, pair in detail if isinstance(pair, dict) and "before" in pair]
    return ", ".join(f"{name} {_side(name, pair['before'])} -> {_side(name, pair['after'])}" for name, pair in pairs)


def _side(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON
    if name == "depends_on":
        value = ",".join(
            f"{dependency['type']}:{dependency['job']}" if "job" in dependency else dependency["type"]
            for dependency in value
        )
    return "-" if value in (None, [], {}, "") else _shown(name, value)


def _nodes(row: Row) -> str:
    from rankd.core.model.nodelist import fold

    nodes = (row["detail"] or {}).get("nodes", ())
    return fold(nodes) if isinstance(nodes, list) else ""  # for an update, it is the number of nodes before and after


def run_history(arguments: argparse.Namespace) -> int:
    """Print the events."""
    rows = open_source(arguments).history(arguments.job)
    if not rows:
        raise Refused("unknown_job", f"there is no job {arguments.job}", "id", status=404)
    if arguments.json:
        print_json(rows)
        return 0
    fields = [
        Field("TIME", lambda row: row["at"], lambda row: shown_time(row["at"])),
        column_of("event", "EVENT"),
        column_of("state", "STATE"),
        Field("BY", _actor),
        column_of("cause", "CAUSE"),
        *(Field(name.upper(), _detail(name), numeric=True) for name in ("generation", "rank", "allocation")),
        Field("NODES", _nodes),
        Field("CHANGES", _changes),
    ]
    print_table([field.column() for field in fields], table_rows(fields, rows), header=not arguments.noheader)
    return 0
