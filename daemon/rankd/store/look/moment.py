"""The instants whose states can be read from the records: what a scheduling cycle knew, or the newest ranking.

A cycle that started jobs is recorded: its time, its generation, and the last events that it knew. Of any other instant,
the events up to then and the generation that was visible count. A state can be read again as long as no later event has
been deleted: each deleted event belonged to a job that may have been part of it.

SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

import msgspec

from rankd.core.errors import Refused, Unavailable
from rankd.core.instant import shown_instant
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import number_at

_HEADERS = "SELECT number, kind, base, ranked_at AS at, made_at, policy, revision, failures, configuration"
_NEWEST = f"{_HEADERS} FROM generations WHERE kind = 'full' ORDER BY number DESC LIMIT 1"
_NUMBER = f"{_HEADERS} FROM generations WHERE number = ?"
_VISIBLE = f"{_HEADERS} FROM generations WHERE made_at <= ? ORDER BY number DESC LIMIT 1"
_SPAN = "SELECT min(number) AS first, max(number) AS last, min(made_at) AS since FROM generations"
_CYCLE = "SELECT cycle, generation, allocated_at AS at, job_id AS job, id FROM allocations"
_OF_GENERATION = f"{_CYCLE} WHERE generation = ? ORDER BY id LIMIT 1"
_WITHIN = f"{_CYCLE} WHERE allocated_at >= ? AND allocated_at < ? ORDER BY id LIMIT 1"
_KNOWN = f"""
SELECT id, {number_at("detail", "$.event")} AS event, {number_at("detail", "$.node_event")} AS node_event
FROM job_events WHERE job_id = ? AND event = 'allocate' AND {number_at("detail", "$.allocation")} = ?"""
_ENDS = """
SELECT coalesce((SELECT max(id) FROM job_events), 0) AS kept, coalesce(max(revision), 0) AS known FROM generations"""
_LAST_JOB_EVENT = "SELECT coalesce(max(id), 0) AS id FROM job_events WHERE at <= ?"
_LAST_NODE_EVENT = "SELECT coalesce(max(id), 0) AS id FROM node_events WHERE at <= ?"

SECOND_S = 1.0


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An instant: the event up to which the records count, and the order of jobs that was known.

    ``generation``: its number; ``base``: the row of the full generation on which it is based; ``ranked``: the last job
    event that it includes. A job that changed later waits for the next generation. ``revision``: the last job event
    that counts. ``node_event``: the same of nodes; None: nodes as they are now. ``now``: UTC seconds. ``cycle``: the
    cycle that started jobs then, None if none did.
    """

    generation: int
    base: Row
    ranked: int
    revision: int
    node_event: int | None = None
    now: float
    cycle: int | None = None


def newest_moment(connection: Reader) -> Moment:
    """The newest full generation, at its own instant.

    Raises:
        Unavailable: ``no_generation``: there is no generation yet.
    """
    found = fetch(connection, _NEWEST)
    if not found:
        raise Unavailable("no_generation", "there was no ranking yet; start a prioritizer, or wait a moment")
    base = found[0]
    return Moment(
        generation=base["number"], base=base, ranked=base["revision"], revision=base["revision"], now=base["at"]
    )


def find_moment(connection: Reader, at: str) -> Moment:
    """The instant that a text names: the number of a generation, or UTC seconds behind ``@``.

    Raises:
        Refused: as :func:`moment_of_generation` and :func:`moment_at`.
    """
    if at.startswith("@"):
        return moment_at(connection, float(at[1:]))
    return moment_of_generation(connection, int(at))


def moment_of_generation(connection: Reader, number: int) -> Moment:
    """The first cycle that started jobs by this generation; without one, the instant when it became visible.

    Raises:
        Refused: ``unknown_generation``; ``not_kept``: the records are too short.
    """
    header = _header(connection, number)
    cycles = fetch(connection, _OF_GENERATION, [number])
    return _checked(connection, _of_cycle(connection, header, cycles[0]) if cycles else _made(connection, header))


def moment_at(connection: Reader, at: float) -> Moment:
    """The first cycle that started jobs within a second from ``at`` (UTC seconds) on; without one, ``at`` itself.

    Raises:
        Refused: ``unknown_generation``: there was none yet, or its header was deleted; ``not_kept``.
    """
    cycles = fetch(connection, _WITHIN, [at, at + SECOND_S])
    if cycles:
        header = _header(connection, cycles[0]["generation"])
        return _checked(connection, _of_cycle(connection, header, cycles[0]))
    visible = fetch(connection, _VISIBLE, [at])
    if not visible:
        raise _unknown(connection, f"there is no ranking of {shown_instant(at)}")
    return _checked(connection, _at(connection, visible[0], at))


def _header(connection: Reader, number: int) -> Row:
    found = fetch(connection, _NUMBER, [number])
    if not found:
        raise _unknown(connection, f"there is no generation {number}")
    return found[0]


def _unknown(connection: Reader, message: str) -> Refused:
    [span] = fetch(connection, _SPAN)
    if span["first"] is None:
        return Refused("unknown_generation", f"{message}: there was no ranking yet", "at", status=404)
    kept = f"the records have generations {span['first']} to {span['last']}, from {shown_instant(span['since'])} on"
    return Refused("unknown_generation", f"{message}: {kept}", "at", status=404)


def _of_cycle(connection: Reader, header: Row, cycle: Row) -> Moment:
    """What a cycle that started jobs knew."""
    found = fetch(connection, _KNOWN, [cycle["job"], cycle["id"]])
    moment = _at(connection, header, cycle["at"])
    if not found:
        _checked(connection, moment)
        raise _deleted(moment.now, "events of jobs at that time were deleted")
    known = found[0]
    if known["event"] is None:  # recorded by an earlier version
        return msgspec.structs.replace(moment, revision=known["id"] - 1, cycle=cycle["cycle"])
    return msgspec.structs.replace(
        moment, revision=known["event"], node_event=known["node_event"], cycle=cycle["cycle"]
    )


def _made(connection: Reader, header: Row) -> Moment:
    """The instant when a generation became visible, with the events that it includes."""
    return msgspec.structs.replace(_at(connection, header, header["made_at"]), revision=header["revision"])


def _at(connection: Reader, header: Row, at: float) -> Moment:
    [event], [node_event] = fetch(connection, _LAST_JOB_EVENT, [at]), fetch(connection, _LAST_NODE_EVENT, [at])
    base = header if header["base"] == header["number"] else _header(connection, header["base"])
    return Moment(
        generation=header["number"],
        base=base,
        ranked=header["revision"],
        revision=event["id"],
        node_event=node_event["id"],
        now=at,
    )


def _checked(connection: Reader, moment: Moment) -> Moment:
    """The moment, if the records have all later events.

    Raises:
        Refused: ``not_kept``, with the instant from which on states can be read.
    """
    [ends] = fetch(connection, _ENDS)
    if moment.base["revision"] < ends["known"] and ends["kept"] < ends["known"]:
        raise _deleted(moment.now, "the last events of jobs were deleted")
    known = {"job_events": moment.base["revision"], "node_events": moment.node_event or 0}
    for table, first in known.items():
        gap = fetch(connection, _last_gap(table), [first + 1])
        if gap:
            what = f"events of {'jobs' if table == 'job_events' else 'nodes'} before {shown_instant(gap[0]['at'])}"
            raise _deleted(moment.now, f"{what} were deleted, and states can be shown from then on")
    return moment


def _deleted(at: float, why: str) -> Refused:
    message = f"the state of {shown_instant(at)} is not known any more: {why} (`retention` in rankd.toml)"
    return Refused("not_kept", message, "at", status=404)


def _last_gap(table: str) -> str:
    """The first event after the last deleted one, if that is after an event."""
    return f"""
SELECT e.id, e.at FROM {table} e WHERE e.id > ? AND NOT EXISTS (SELECT 1 FROM {table} p WHERE p.id = e.id - 1)
ORDER BY e.id DESC LIMIT 1"""
