"""All limits of pending jobs together: how many there may be, and how different a user's may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from rankd.core.errors import AboveLimit
from rankd.core.model.job import AcceptedJob
from rankd.core.model.setting import AdmissionSettings
from rankd.services.intake.pending_limit import (
    Key,
    OfAccount,
    PendingLimits,
    TasksOf,
    Whose,
    numbers_of,
    of_kind,
    of_move,
    records_of,
)
from rankd.services.intake.submission import Submission, without_refused
from rankd.services.intake.variety_limit import More, VarietyLimits
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import Outdated
from rankd.store.feed.new_pending import NewPending
from rankd.store.record.job import known_keys
from rankd.store.record.job_name import Owner
from rankd.store.record.pending_count import (
    count_pending,
    count_pending_of_account,
    count_pending_tasks,
    count_pending_tasks_of_account,
)
from rankd.store.record.pending_variety import Variety, shapes_of_all, variety_of_user


class JobLimits:
    """The limits of pending jobs, with the settings of the moment. Counts are read on a thread."""

    def __init__(self, settings: Callable[[], AdmissionSettings], database: Database) -> None:
        self._database = database
        self._more = More()
        self._pending = PendingLimits(
            settings, lambda name: database.read_in_thread(lambda c: _counted(c, name)), self._known
        )
        self._variety = VarietyLimits(
            settings, self._pending.most, lambda user: database.read_in_thread(lambda c: _variety(c, user))
        )

    def look_first(self, look: Callable[[], Awaitable[None]]) -> None:
        """Before each count, count what others have stored: else the same jobs would be in both."""
        self._pending.before_count = look

    async def start(self) -> None:
        """Read what concerns all users, so that no submission waits for that."""
        await self._pending.start()
        await self._variety.start()

    async def within(self, submission: Submission) -> Submission:
        """The submission without the jobs above a limit. Its accepted jobs go to :meth:`stored` or :meth:`lost`.

        Raises:
            AboveLimit: no job of the message is left, and none was rejected before.
        """
        refused = await self._pending.reserve(submission.accepted, atomic=submission.atomic)
        submission = without_refused(submission, refused)
        if not (refused := await self._too_different(submission.accepted)):
            return submission
        gone = range(len(submission.accepted)) if submission.atomic else refused
        self.lost([submission.accepted[place] for place in gone])
        return without_refused(submission, refused)

    async def refusal_of(self, job: AcceptedJob) -> AboveLimit | None:
        """Why the job would be refused. It is not counted."""
        refused = await self._pending.reserve([job], atomic=True)
        if refused:
            return refused[0]
        self._pending.lost([job])  # before anything else can be counted
        return await self._variety.refusal_of(job)

    async def _too_different(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """The refusals by index; none for a job whose key is known, since that is no other job."""
        refused = await self._variety.reserve(jobs)
        if not refused:
            return refused
        keys = {place: (jobs[place].user, jobs[place].request.key) for place in refused}
        known = await self._known([key for key in keys.values() if key[1] is not None])
        return {place: error for place, error in refused.items() if keys[place] not in known}

    async def _known(self, keys: Sequence[Key]) -> Collection[Key]:
        """Those keys that belong to jobs."""
        return await self._database.read(lambda c: known_keys(c, keys))

    async def changed(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of pending jobs that are to be like these."""
        return await self._variety.reserve(jobs)

    async def move(self, jobs: Sequence[AcceptedJob]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of pending jobs that are to come into these accounts. The others go to :meth:`moved`.

        The jobs count as those of their users and of all already.
        """
        return await self._pending.reserve_moves(jobs)

    def moved(self, jobs: Sequence[AcceptedJob], *, stored: bool) -> None:
        """These jobs of :meth:`move` are durably in their accounts, or stay where they were."""
        self._pending.settle_moves(jobs, stored=stored)

    async def split(self, owners: Sequence[Owner]) -> Mapping[int, AboveLimit]:
        """The refusals, by index, of tasks that are to get records of their own. The others go to :meth:`was_split`."""
        return await self._pending.reserve_more([records_of(*owner) for owner in owners])

    def was_split(self, owners: Sequence[Owner], *, stored: bool) -> None:
        """These tasks of :meth:`split` have records of their own, or none."""
        for owner in owners:
            self._pending.settle_more(records_of(*owner), stored=stored)

    # --- beside other intakes, in a transaction of the writer's thread ------------------------------------------

    def notice(self, new: Sequence[NewPending]) -> None:
        """The present transaction sees these jobs of others, which were not counted yet."""
        self._more = more_of(new) if new else More()

    def settle(self) -> None:
        """The transaction has ended: count what it has seen. It runs on the loop."""
        more, self._more = self._more, More()
        self._pending.add(more.numbers)
        self._variety.settle(more)

    def may_store(self, connection: Connection, jobs: Sequence[AcceptedJob]) -> bool:
        """Whether jobs of :meth:`within` are still within the limits. If not, they have to be checked again."""
        if not self._pending.is_within(numbers_of(jobs).keys(), self._more.numbers):
            known = known_keys(connection, [(job.user, job.request.key) for job in jobs if job.request.key is not None])
            new = [job for job in jobs if (job.user, job.request.key) not in known]
            more = Counter(self._more.numbers)
            more.subtract(numbers_of([job for job in jobs if (job.user, job.request.key) in known]))
            if new and not self._pending.is_within(numbers_of(new).keys(), more):
                return False
        return self._variety.is_within(jobs, self._more, lambda name: _variety(connection, name))

    def confirm(
        self,
        connection: Connection,
        *,
        changed: Sequence[AcceptedJob] = (),
        moved: Sequence[AcceptedJob] = (),
        split: Sequence[Owner] = (),
    ) -> None:
        """Check what :meth:`changed`, :meth:`move` and :meth:`split` have allowed again, in the transaction.

        Raises:
            Outdated: others have taken the room meanwhile.
        """
        names = {name for job in moved for name in of_move(job)}
        names |= {name for owner in split for name in records_of(*owner)}
        if not self._database.has_standbys:
            return
        if not self._pending.is_within(names, self._more.numbers):
            raise Outdated
        if changed and not self._variety.is_within(changed, self._more, lambda name: _variety(connection, name)):
            raise Outdated

    # --- afterwards ---------------------------------------------------------------------------------------------

    def stored(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`within` are durable."""
        self._pending.stored(jobs)

    def lost(self, jobs: Sequence[AcceptedJob]) -> None:
        """These jobs of :meth:`within` could not be stored."""
        self._pending.lost(jobs)


def _counted(connection: Connection, name: Whose) -> int:
    if isinstance(name, TasksOf):
        if isinstance(name.whose, OfAccount):
            return count_pending_tasks_of_account(connection, name.whose.account)
        return count_pending_tasks(connection, name.whose)
    if isinstance(name, OfAccount):
        return count_pending_of_account(connection, name.account)
    return count_pending(connection, name)


def _variety(connection: Connection, user: str | None) -> Variety:
    return shapes_of_all(connection) if user is None else variety_of_user(connection, user)


def more_of(new: Sequence[NewPending]) -> More:
    """These jobs as numbers and keys."""
    numbers: Counter[Whose] = Counter()
    variety: dict[str | None, Variety] = {}
    for one in new:
        for name, number in of_kind(one.user, one.account, 1).items():
            numbers[name] += one.tasks if isinstance(name, TasksOf) else one.jobs * number
        own = variety.setdefault(one.user, Variety(set(), set(), set()))
        own.shapes.add(one.shape)
        variety.setdefault(None, Variety(set(), set(), set())).shapes.add(one.shape)
        if one.constraints:
            own.constraints.add(hash(one.constraints))
        if one.application:
            own.applications.add(hash((one.queue, one.application)))
    return More(numbers, variety)
