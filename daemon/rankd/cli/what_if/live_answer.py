"""The answer of ``rankd whatif`` from columns: what changes for all waiting jobs, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.place import find
from rankd.cli.what_if.dump import configuration_at

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rankd.core.evaluate.document import JobEntry
    from rankd.core.evaluate.variation import Variation
    from rankd.core.evaluate.whatif import Landing, WhatIf
    from rankd.core.model.job import AcceptedJob
    from rankd.services.prioritizer.live_columns import Live
    from rankd.services.prioritizer.what_if import Effect
    from rankd.store.engine.connection import Connection
    from rankd.store.engine.reading import Row

MOST_PLACED = 20_000
"""With at most this many waiting jobs, a document of the state also tells where new jobs would start. It costs 0.25 ms
of processor time for each of the waiting jobs."""


def live_answer(arguments: argparse.Namespace, variation: Variation, requests: bytes | None) -> WhatIf | None:
    """The answer; None if it needs a document of the state. ``requests``: new jobs.

    Without ``--json``, only the jobs that are printed are listed.
    """
    from rankd.core.evaluate.whatif import WhatIf
    from rankd.services.prioritizer.live_columns import CannotRank
    from rankd.store.engine.looking import looking
    from rankd.store.look.moment import newest_moment
    from rankd.store.record.pending_count import count_pending

    with looking(find(arguments).need_database()) as connection:
        base = newest_moment(connection.connection).base
        if requests is not None and count_pending(connection) <= MOST_PLACED:
            return None
        try:
            found, submitted = _computed(connection, arguments, base, variation, requests)
        except CannotRank:
            return None
    return WhatIf(
        generation=base["number"],
        newer=0,
        pending=found.pending,
        jobs=[] if arguments.summary else found.moves(None if arguments.json else arguments.limit),
        moved=len(found.moved),
        owners=found.owners(),
        submitted=submitted,
        refused=[f"job {one.job}: {one.error}" for one in submitted if one.error is not None],
    )


def _computed(
    connection: Connection, arguments: argparse.Namespace, base: Row, variation: Variation, requests: bytes | None
) -> tuple[Effect, list[Landing]]:
    from rankd.cli.what_if.whatif import check_factors, new_jobs
    from rankd.services.prioritizer.live_columns import read_live
    from rankd.services.prioritizer.new_job import landings
    from rankd.services.prioritizer.what_if import effect

    reader, place = connection.connection, find(arguments).directory
    configuration, _ = configuration_at(reader, arguments.live_config, place, None, needs_queues=False)
    check_factors(variation.weights, configuration.settings.priority.weights)
    live = read_live(connection, configuration, base["at"], base["failures"])
    entries = [] if requests is None else new_jobs(arguments, requests, live.configuration, live.at)
    new, refused = _admitted(connection, live, entries)
    found = effect(connection, live, variation, [job for _, job in new])
    landed = {one.job: one for one in [*refused, *landings(live, found.then, new)]}
    return found, [landed[entry.id] for entry in entries]


def _admitted(
    connection: Connection, live: Live, entries: Sequence[JobEntry]
) -> tuple[list[tuple[str, AcceptedJob]], list[Landing]]:
    """The jobs that would be accepted, by name, and the others.

    Raises:
        CannotRank: a job does not just wait for its turn.
    """
    from rankd.core.admission.admit import admit
    from rankd.core.admission.submitter import Submitter
    from rankd.core.errors import Refused
    from rankd.core.evaluate.whatif import Landing
    from rankd.services.prioritizer.live_columns import CannotRank
    from rankd.store.record.catalog import admission_tables
    from rankd.store.record.node import read_nodes

    if not entries:
        return [], []
    if not all(map(_just_waits, entries)):
        raise CannotRank("a new job waits for more than its turn")
    offered = {kind for node in read_nodes(connection)[0] for kind in node.capacity}
    tables = admission_tables(live.configuration, live.catalog, offered)
    new, refused = list[tuple[str, "AcceptedJob"]](), list[Landing]()
    for entry in entries:
        try:
            new.append((str(entry.id), admit(entry, Submitter(entry.user or "", entry.privileged), tables)))
        except Refused as error:
            refused.append(Landing(job=entry.id, error=error.message))
    return new, refused


def _just_waits(entry: JobEntry) -> bool:
    """Whether the job is eligible from its submission on, and no array or part of an application."""
    others = entry.application, entry.array, entry.begin_at, entry.fixed_priority, entry.class_value
    return not (entry.held or entry.depends_on or entry.factors or any(one is not None for one in others))
