"""Requests that change jobs: ``job.cancel``, ``hold``, ``release``, ``signal``, ``update``, of one job or of many.

Many jobs are changed part by part, each part in its own transaction, so that others can write in between. The jobs of
a filter are looked up first and again in each part: a job that no longer matches the filter is not changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.queue_administration import AdministeredQueues
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import ACTIONS, Decide, cancel
from rankd.core.change.job_update import Task, Verdict, check_update
from rankd.core.change.update_warning import warning_of
from rankd.core.errors import AboveLimit, RankdError, Refused, Unavailable
from rankd.core.model.array import ArrayRequest
from rankd.core.model.index_set import IndexSet, read
from rankd.core.model.job import AcceptedJob
from rankd.core.model.signal_name import parse_signal
from rankd.services.intake.admitting import Admitting
from rankd.services.intake.job_limit import JobLimits
from rankd.services.intake.job_selection import (
    STATUS,
    By,
    Total,
    by_record,
    chosen_filter,
    closed_to,
    is_single,
    names_of,
    read_selection,
    reader_of,
    selected_by,
    still_selected,
    with_room,
)
from rankd.services.intake.rests import Rests
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import PART, GroupCommit
from rankd.store.look.filter_check import check_filter
from rankd.store.record.descendant import descendants_of
from rankd.store.record.job_action import act, closed_jobs, send_signals, split_targets
from rankd.store.record.job_name import (
    Owner,
    Target,
    Targets,
    each_once,
    named_again,
    owners_of,
    records,
    targets_of,
    weight_of,
    without_records,
)
from rankd.store.record.job_update import Judgement, judge, judge_again, reply_of, write_update
from rankd.wire.job_selection import id_or_name
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import Failed, JobCancel, JobFilter, JobSelection, JobSignal, SelectionReply

Part = Callable[[list[Target]], Awaitable[SelectionReply]]
"""Changes some of the jobs, at most :data:`AT_ONCE`."""

AT_ONCE = 50
"""This many jobs are changed in a transaction. An update costs five times what an insertion costs there."""
PER_CHANGE = PART // AT_ONCE
"""The weight of a changed job."""


class _Room(NamedTuple):
    """Targets for which there is room, the others as failed, and the owners whose new records are counted."""

    found: list[Target]
    failed: list[Failed]
    counted: list[Owner]


class JobVerbs:
    """The five verbs."""

    def __init__(
        self,
        database: Database,
        group: GroupCommit,
        admitting: Admitting,
        limits: JobLimits,
        rests: Rests,
        clock: Clock,
    ) -> None:
        self._database = database
        self._group = group
        self._admitting = admitting
        self._limits = limits
        self._rests = rests
        self._clock = clock
        self._is_stopping = False

    def verbs(self) -> list[Verb]:
        """All five verbs."""
        actions = [Verb(name, self._action(decide)) for decide, name in ACTIONS.items()]
        return [Verb("job.update", self.update), Verb("job.signal", self.signal), *actions]

    def stop(self) -> None:
        """Begin no further part. A request for many jobs is then answered with an error that asks to send it again."""
        self._is_stopping = True

    async def update(self, asker: Submitter, payload: bytes) -> Reply:
        """``job.update``: change fields of pending jobs, and admit them again."""
        await self._admitting.catch_up()
        update, asker = read_selection(payload, JobUpdate), self._with_queues(asker)
        check_update(update, asker)
        chosen = chosen_filter(update, asker, "job.update")
        await self._admitting.see_nodes()

        async def part(targets: list[Target]) -> SelectionReply:
            await self._learn_groups(targets)
            task = Task(update, asker, self._admitting.tables, self._clock())
            targets, full = await self._with_records(targets, task)

            def judged(connection: Connection) -> Judgement:
                return judge(connection, still_selected(connection, targets, chosen), task)

            judgement = await self._database.read_in_thread(judged)
            warning = warning_of(judgement.verdicts, self._admitting.nodes.offered.doubt)
            if update.dry_run:
                reply = reply_of(judgement.all(), judgement.failed)
                return msgspec.structs.replace(reply, warning=warning)
            judgement = await self._not_too_different(judgement)

            def write(connection: Connection) -> SelectionReply:
                present = task._replace(tables=self._admitting.tables)
                changed = [verdict.accepted for verdict in judgement.verdicts if verdict.changes]
                self._limits.confirm(connection, changed=changed, moved=list(map(_with_tasks, _moves_in(judgement))))
                return write_update(
                    connection,
                    judge_again(
                        connection,
                        judgement,
                        task,
                        present,
                        lambda jobs: still_selected(connection, named_again(targets, jobs), chosen),
                    ),
                    present,
                    self._admitting.catalog,
                )

            async with self._moving(judgement) as judgement:
                reply = await self._group.do(write, client=asker.user, weight=PER_CHANGE * len(targets))
            return msgspec.structs.replace(_and_failed(reply, full), warning=warning)

        reply = await self._in_parts(update, chosen, By(asker, "job.update"), part)
        self._admitting.learn()
        return reply

    async def signal(self, asker: Submitter, payload: bytes) -> Reply:
        """``job.signal``: send a signal to the processes of running jobs, once each."""
        selection = read_selection(payload, JobSignal)
        number = parse_signal(selection.signal)
        chosen = chosen_filter(selection, asker, "job.signal")

        async def part(targets: list[Target]) -> SelectionReply:
            def work(connection: Connection) -> SelectionReply:
                still = still_selected(connection, targets, chosen)
                return send_signals(connection, still, asker, self._clock(), number, dry_run=selection.dry_run)

            if selection.dry_run:
                return await self._database.read_in_thread(work)
            return await self._group.do(work, client=asker.user, weight=PER_CHANGE * weight_of(targets))

        return await self._in_parts(selection, chosen, By(asker, "job.signal"), part)

    def _with_queues(self, asker: Submitter) -> Submitter:
        """The asker with the queues that the asker administers by the configuration in force."""
        tables = self._admitting.tables
        groups = self._admitting.host_groups.of_staff.get(asker.user, ())
        return asker._replace(queues=AdministeredQueues(tables.queues, asker.user, groups))

    async def _learn_groups(self, targets: Sequence[Target]) -> None:
        """Look up the groups of the jobs' users, by which the new values of the jobs are checked."""
        jobs: dict[int, IndexSet] = {target.job: () for target in targets}
        if self._admitting.host_groups.is_needed:
            owners = await self._database.read(lambda c: owners_of(c, jobs))
            await self._admitting.host_groups.need({owner.user for owner in owners.values()})

    async def _not_too_different(self, judgement: Judgement) -> Judgement:
        """The judgement, with the jobs as failed that would be too different from the user's other ones."""
        changed = [verdict for verdict in judgement.verdicts if verdict.changes]
        refused = await self._limits.changed([verdict.accepted for verdict in changed])
        return _without(judgement, {changed[place].job: error for place, error in refused.items()})

    @asynccontextmanager
    async def _moving(self, judgement: Judgement) -> AsyncIterator[Judgement]:
        """Count the jobs that change their account in the new one, while the block stores the judgement.

        Yields it with the jobs as failed for which the account has no room.
        """
        moves = _moves_in(judgement)
        jobs = list(map(_with_tasks, moves))
        refused = await self._limits.move(jobs)
        counted = [job for place, job in enumerate(jobs) if place not in refused]
        is_stored = True  # also if the block is cancelled: then they may be
        try:
            yield _without(judgement, {moves[place].job: error for place, error in refused.items()})
        except RankdError:
            is_stored = False
            raise
        finally:
            self._limits.moved(counted, stored=is_stored)

    def _action(self, decide: Decide) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            kind = JobCancel if decide is cancel else JobSelection
            selection, asker = read_selection(payload, kind), self._with_queues(asker)
            chosen = chosen_filter(selection, asker, ACTIONS[decide])

            async def part(targets: list[Target]) -> SelectionReply:
                counted: list[Owner] = []

                def work(connection: Connection) -> SelectionReply:
                    self._limits.confirm(connection, split=counted)
                    still = still_selected(connection, targets, chosen)
                    return act(connection, still, asker, self._clock(), decide, dry_run=selection.dry_run)

                if selection.dry_run:
                    return await self._database.read_in_thread(work)
                if decide is cancel:  # what it splits off has ended
                    return await self._group.do(work, client=asker.user, weight=PER_CHANGE * weight_of(targets))
                async with self._splitting(targets, asker) as (targets, full, new):  # noqa: PLR1704 - `work` reads it
                    counted += new
                    reply = await self._group.do(work, client=asker.user, weight=PER_CHANGE * weight_of(targets))
                return _and_failed(reply, full)

            return await self._in_parts(selection, chosen, By(asker, ACTIONS[decide]), part)

        return handle

    async def _with_descendants(self, selection: JobSelection, targets: list[Target], by: By) -> list[Target]:
        """The targets and, if the request is to cancel them too, the jobs that wait for them.

        An ordinary user's own ones only, and none of a job that this user may not cancel.
        """
        if not (isinstance(selection, JobCancel) and selection.descendants):
            return targets
        user = None if by.asker.privileged else by.asker.user

        def found(connection: Connection) -> list[Target]:
            closed = closed_jobs(connection, records(targets), by.asker, by.action)
            return descendants_of(connection, [one for one in targets if one.job not in closed], user)

        # if one has ended, the others are meant
        named = [one._replace(of_whole=True, array=None) for one in targets]
        return list(dict.fromkeys([*named, *await self._database.read_in_thread(found)]))

    async def _in_parts(self, selection: JobSelection, chosen: JobFilter | None, by: By, do: Part) -> SelectionReply:
        """Change all selected jobs. If the request names a single job and it can't be changed, raise that error."""
        (targets, failed), last = await self._select(selection, chosen, by)
        targets = await self._with_descendants(selection, targets, by)
        total = Total(failed)
        loop = asyncio.get_running_loop()
        for start in range(0, len(targets), AT_ONCE):
            began = loop.time()
            try:
                if self._is_stopping and start:
                    raise Unavailable("stopping", "the service is stopping")
                reply = await do(targets[start : start + AT_ONCE])
            except RankdError as error:
                if not total.done:
                    raise
                message = f"{error.message}; {len(total.done)} jobs were changed before, ask again for the rest"
                raise Unavailable(error.code, message) from error
            total.take(reply)
            if start + AT_ONCE < len(targets):
                await self._rests.rest(by.asker.user, loop.time() - began)
        if last is None and (chosen is None or chosen.after is None):  # an array may have more on another page
            total.fail_for_nothing(targets, by.action)
        if is_single(selection) and total.failed:
            first = total.failed[0]
            raise Refused(first.code, first.message, "id", STATUS.get(first.code, 400))
        return total.fitting_reply(last)

    async def _select(self, selection: JobSelection, chosen: JobFilter | None, by: By) -> tuple[Targets, int | None]:
        """The selected jobs, each once, and the last one if the filter's limit was reached.

        Raises:
            Refused: as :func:`.check_filter`: the filter names what does not exist.
        """
        if chosen is not None and chosen.after is None:
            first, me = chosen, by.asker.user
            await self._database.look(lambda c: check_filter(reader_of(c), first, me))
        users = None if by.asker.privileged else [by.asker.user]

        def meant(connection: Connection) -> Targets:
            names = names_of(selection)
            return targets_of(connection, names, closed_to(connection, names, by), users)

        def filtered(connection: Connection, chosen: JobFilter) -> tuple[list[Target], list[Failed]]:
            found = by_record(connection, chosen, closed_to(connection, names_of(chosen), by))
            return selected_by(connection, found), found.failed

        targets, last = await self._database.read_in_thread(meant), None
        if chosen is not None:
            found, failed = await self._database.read_in_thread(lambda c: filtered(c, chosen))
            last = found[-1].job if found and len(found) >= chosen.limit else None
            targets = Targets(each_once([*targets.found, *found]), [*targets.failed, *failed])
        return targets, last

    @asynccontextmanager
    async def _splitting(self, targets: list[Target], asker: Submitter) -> AsyncIterator[_Room]:
        """Count the records that tasks among the targets get, while the block makes them.

        Yields the targets for which there is room, the others as failed, and the owners whose records are counted.
        """
        arrays = without_records(targets)
        if not arrays:
            yield _Room(targets, [], [])
            return
        owners = await self._database.read_in_thread(lambda c: owners_of(c, arrays))
        owners = {array: owner for array, owner in owners.items() if _may_split(asker, owner)}
        refused = await self._limits.split(list(owners.values()))
        full = {array: refused[place] for place, array in enumerate(owners) if place in refused}
        counted = [owner for array, owner in owners.items() if array not in full]
        is_stored = True  # also if the block is cancelled: then they may be
        try:
            yield _Room(*with_room(targets, full), counted)
        except RankdError:
            is_stored = False
            raise
        finally:
            self._limits.was_split(counted, stored=is_stored)

    async def _with_records(self, targets: list[Target], task: Task) -> Targets:
        """The targets, whose tasks have records now if the update of their arrays would be allowed."""
        arrays = without_records(targets)
        if not arrays or task.update.dry_run:
            return Targets(targets, [])
        judged = await self._database.read_in_thread(lambda c: judge(c, [Target(array) for array in arrays], task))
        allowed = {verdict.job for verdict in judged.verdicts}
        own = [one for one in targets if one.task is not None and one.job in allowed]
        others = [one for one in targets if one not in set(own)]
        now, user = self._clock(), task.asker.user
        async with self._splitting(own, task.asker) as (own, full, counted):

            def work(connection: Connection) -> list[int]:
                self._limits.confirm(connection, split=counted)
                return list(split_targets(connection, own, user, now))

            split = await self._group.do(work, client=user, weight=PER_CHANGE * weight_of(own))
        return Targets(others + [Target(job) for job in split], full)


def _may_split(asker: Submitter, owner: Owner) -> bool:
    """Whether the asker may change jobs of this owner. Others are refused later, and must not count."""
    return asker.privileged or asker.user == owner.user or (asker.queues is not None and asker.queues.is_any())


def _and_failed(reply: SelectionReply, failed: list[Failed]) -> SelectionReply:
    return msgspec.structs.replace(reply, failed=[*reply.failed, *failed]) if failed else reply


def _moves_in(judgement: Judgement) -> list[Verdict]:
    return [verdict for verdict in judgement.verdicts if "account" in verdict.changes]


def _with_tasks(verdict: Verdict) -> AcceptedJob:
    """The job of an update, with the tasks that are pending in it if it is an array."""
    if verdict.stored.array is None:
        return verdict.accepted
    array = ArrayRequest(read(verdict.stored.array), verdict.stored.array_limit)
    return msgspec.structs.replace(verdict.accepted, array=array)


def _without(judgement: Judgement, refused: Mapping[int, AboveLimit]) -> Judgement:
    """The judgement with these jobs as failed; their errors by id."""
    if not refused:
        return judgement
    names = {verdict.job: verdict.stored.name(verdict.job) for verdict in judgement.verdicts}
    failed = [
        Failed(id=id_or_name(job, names[job]), code=error.code, message=error.message) for job, error in refused.items()
    ]
    kept = [verdict for verdict in judgement.verdicts if verdict.job not in refused]
    return Judgement(kept, judgement.failed + failed, judgement.limits)
