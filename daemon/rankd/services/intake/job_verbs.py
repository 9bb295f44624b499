"""What users do to jobs that exist: ``job.cancel``, ``hold``, ``release``, ``update``, of one job or of many.

Many are done part by part, each in a transaction of its own, so that others write in between. What a filter selects
is looked up first and asked again in each part: a job that has become something else meanwhile is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.admit import AdmissionTables, Submitter
from rankd.core.change.job_action import Decide, cancel, hold, release
from rankd.core.change.job_update import Task, check_update
from rankd.core.errors import RankdError, Refused, Unavailable, admins_only
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import MAX_GROUP, GroupCommit
from rankd.store.record.catalog import Catalog
from rankd.store.record.job_action import act, select_ids
from rankd.store.record.job_update import Judgement, judge, judge_again, write_update
from rankd.wire.codec import decode_strict
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import Failed, JobFilter, JobSelection, SelectionReply

Selection = TypeVar("Selection", bound=JobSelection)
Part = Callable[[list[int]], Awaitable[SelectionReply]]
"""Does some of the jobs, at most :data:`MAX_GROUP`."""

MOST_DONE = 50_000
MOST_FAILED_BYTES = 512 * 2**10
"""So much of what was done and of what failed goes into a reply: NATS servers take messages of 1 MB."""

_ACTIONS = {"job.cancel": cancel, "job.hold": hold, "job.release": release}


class Admitting(Protocol):
    """What jobs are admitted by at present."""

    catalog: Catalog

    @property
    def tables(self) -> AdmissionTables:
        """What they are held against."""

    async def see_nodes(self) -> None:
        """Bring the tables' nodes up to date, where they count."""

    def learn(self) -> None:
        """Take in what first use has added to the catalog."""


class JobVerbs:
    """The four verbs."""

    def __init__(self, database: Database, group: GroupCommit, admitting: Admitting) -> None:
        self._database = database
        self._group = group
        self._admitting = admitting
        self._is_stopping = False

    def verbs(self) -> list[Verb]:
        """All of them."""
        actions = [Verb(name, self._action(decide)) for name, decide in _ACTIONS.items()]
        return [Verb("job.update", self.update), *actions]

    def stop(self) -> None:
        """Begin no further part: who asked for many jobs is told to ask again."""
        self._is_stopping = True

    async def update(self, asker: Submitter, payload: bytes) -> Reply:
        """``job.update``: pending jobs, admitted again with the changed fields."""
        update = _read_selection(payload, JobUpdate)
        check_update(update, asker)
        await self._admitting.see_nodes()

        async def part(ids: list[int]) -> SelectionReply:
            task = Task(update, asker, self._admitting.tables, time.time())
            chosen = _chosen(update, asker)

            def judged(connection: Connection) -> Judgement:
                return judge(connection, _still(connection, ids, chosen), task)

            judgement = await self._database.read_in_thread(judged)
            if update.dry_run:
                return SelectionReply(done=[verdict.job for verdict in judgement.verdicts], failed=judgement.failed)

            def write(connection: Connection) -> SelectionReply:
                present = task._replace(tables=self._admitting.tables)
                return write_update(
                    connection,
                    judge_again(connection, judgement, task, present, lambda jobs: _still(connection, jobs, chosen)),
                    present,
                    self._admitting.catalog,
                )

            return await self._group.do(write, client=asker.user, weight=len(ids))

        reply = await self._in_parts(update, asker, part)
        self._admitting.learn()
        return reply

    def _action(self, decide: Decide) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            selection = _read_selection(payload, JobSelection)
            chosen = _chosen(selection, asker)

            async def part(ids: list[int]) -> SelectionReply:
                def work(connection: Connection) -> SelectionReply:
                    still = _still(connection, ids, chosen)
                    return act(connection, still, asker, time.time(), decide, dry_run=selection.dry_run)

                if selection.dry_run:
                    return await self._database.read_in_thread(work)
                return await self._group.do(work, client=asker.user, weight=len(ids))

            return await self._in_parts(selection, asker, part)

        return handle

    async def _in_parts(self, selection: JobSelection, asker: Submitter, do: Part) -> SelectionReply:
        """All that the selection means; a single job that could not be acted upon is an error."""
        ids, last = await self._select(selection, asker)
        done: list[int] = []
        failed: list[Failed] = []
        for start in range(0, len(ids), MAX_GROUP):
            try:
                if self._is_stopping and start:
                    raise Unavailable("stopping", "the service is stopping")
                reply = await do(ids[start : start + MAX_GROUP])
            except RankdError as error:
                if not done:
                    raise
                message = f"{error.message}; {len(done)} jobs were changed before, ask again for the rest"
                raise Unavailable(error.code, message) from error
            done += reply.done
            failed += reply.failed
        if selection.id is not None and failed:
            raise Refused(failed[0].code, failed[0].message, "id", _STATUS.get(failed[0].code, 400))
        return _fitting(done, failed, last)

    async def _select(self, selection: JobSelection, asker: Submitter) -> tuple[list[int], int | None]:
        """Which jobs a selection means, each once; the last one, where the filter's limit was reached."""
        ids = [selection.id] if selection.id is not None else list(selection.ids or [])
        chosen, last = _chosen(selection, asker), None
        if chosen is not None:
            found = await self._database.read_in_thread(lambda c: select_ids(c, chosen))
            last = found[-1] if found and len(found) >= chosen.limit else None
            ids += found
        return list(dict.fromkeys(ids)), last


def _read_selection(payload: bytes, kind: type[Selection]) -> Selection:
    """Refused here if it names no job: inside a transaction, a refusal makes all that share it begin again."""
    selection = decode_strict(payload, kind)
    if selection.filter is None and selection.id is None and not selection.ids:
        raise Refused("empty_selection", "name the jobs: id, ids, or a filter", "id")
    return selection


def _chosen(selection: JobSelection, asker: Submitter) -> JobFilter | None:
    """The filter; that of an ordinary user selects own jobs alone.

    Raises:
        Refused: ``admins_only``: an ordinary user's filter names other users.
    """
    chosen = selection.filter
    if chosen is None or asker.privileged:
        return chosen
    if others := [user for user in chosen.users or () if user != asker.user]:
        raise admins_only(f"changing jobs of '{others[0]}'", asker.user, "users")
    return msgspec.structs.replace(chosen, users=[asker.user])


def _still(connection: Connection, ids: Sequence[int], chosen: JobFilter | None) -> Sequence[int]:
    """Those of these jobs that the filter selects now."""
    if chosen is None:
        return ids
    return select_ids(connection, msgspec.structs.replace(chosen, id=None, ids=list(ids)))


def _fitting(done: list[int], failed: list[Failed], last: int | None) -> SelectionReply:
    """A reply that the broker takes: of very many jobs the first, and how many there are."""
    size, told = 0, 0
    while told < len(failed) and size < MOST_FAILED_BYTES:
        size += len(failed[told].message.encode()) + 100
        told += 1
    return SelectionReply(
        done=done[:MOST_DONE],
        failed=failed[:told],
        done_count=len(done) if len(done) > MOST_DONE else None,
        failed_count=len(failed) if told < len(failed) else None,
        last=last,
    )


_STATUS = {
    "unknown_job": 404,
    "unknown_priority_class": 404,
    "unknown_dependency": 404,
    "too_large": 413,
    **dict.fromkeys(
        ("not_owner", "urgency_not_allowed", "unknown_association", "queue_access", "system_priority_class"), 403
    ),
    **dict.fromkeys(("already_ended", "not_pending", "not_held"), 409),
}
"""Of what could not be done to a single job; anything else is bad input."""
