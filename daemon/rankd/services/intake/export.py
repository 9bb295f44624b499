"""What the intake exports: requests and submissions by code, the streams, and the figures of the whole site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Protocol

from nats.aio.msg import Msg

from rankd.bus.connection import Bus
from rankd.bus.stream_watch import StreamWatch
from rankd.core.errors import RankdError
from rankd.core.metric.figure import Figure
from rankd.core.metric.label import together
from rankd.core.model.server_url import is_postgres
from rankd.services.intake.configuration_keeper import ConfigurationKeeper
from rankd.services.intake.delivery import Deliveries
from rankd.services.intake.submission import Submission
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.of_services import of_streams
from rankd.services.runtime.metric.site import RecordFigures
from rankd.store.engine.database import Database
from rankd.wire.codec import encode
from rankd.wire.figures import Figures
from rankd.wire.subject import RECORDS, figures_subject

OK = "ok"
SOON_S = 0.5
"""Who asks over the bus waits at most this long for a new reading (:data:`rankd.bus.figures.TIMEOUT_S`)."""

Taken = tuple[Submission, list[int], RankdError | None]


class IntakeCounts:
    """Counts since the start: answers by verb and code, submitted jobs by the code of the outcome."""

    def __init__(self) -> None:
        self.answered = Counter[tuple[str, str]]()
        self.jobs = Counter[str]()

    @contextmanager
    def counting(self) -> Iterator[Callable[[Submission, list[int], RankdError | None], Taken]]:
        """Count one message with jobs. One that is refused as a whole counts as one job."""
        try:
            yield self._taken
        except RankdError as error:
            self.jobs[error.code] += 1
            raise

    def _taken(self, submission: Submission, ids: list[int], error: RankdError | None) -> Taken:
        self.jobs[OK] += len(ids)
        self.jobs.update(rejected.code for rejected in submission.rejected)
        if error is not None:
            self.jobs[error.code] += len(submission.accepted) - len(ids)
        return submission, ids, error

    def figures(self) -> Iterator[Figure]:
        """All counts."""
        answered = (((verb, code), number) for (verb, code), number in self.answered.items())
        yield from together("rankd_requests_total", answered, place=1)
        jobs = (((code,), number) for code, number in self.jobs.items())
        yield from together("rankd_submitted_jobs_total", jobs, place=0)


class Measured(Protocol):
    """The parts of the intake that know figures."""

    bus: Bus
    database: Database
    counts: IntakeCounts
    streams: StreamWatch
    deliveries: Deliveries
    keeper: ConfigurationKeeper


async def export(exported: Exported, intake: Measured, stack: AsyncExitStack, clock: Clock) -> None:
    """Export what the intake knows, and answer who asks for it."""
    records = RecordFigures(intake.database.url, clock)
    stack.callback(records.close)
    exported.add(intake.counts.figures)
    exported.add(lambda: of_streams(intake.streams.found))
    exported.add(lambda: [Figure("rankd_foreign_reports_total", intake.deliveries.foreign.count)])
    exported.configuration(intake.keeper.diag)
    if not is_postgres(intake.database.url):
        exported.disk("records", intake.database.url)
    exported.collect(records.read)
    await exported.answer(intake.bus)
    await answer_records(intake.bus, records)


async def answer_records(bus: Bus, records: RecordFigures) -> None:
    """Answer who has no database with the figures of the records: the last ones while a reading takes long."""

    async def answer(message: Msg) -> None:
        if bus.replies.may_answer(message.subject, message.reply):
            found = await records.read(SOON_S)
            await message.respond(encode(Figures(service=RECORDS, figures=found)))

    await bus.listen(figures_subject(RECORDS), answer)
