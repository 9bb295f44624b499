"""``job.log``: lets a user have a session with a job's node, and waits until its agent has opened it.

The right is checked here, and nowhere else. The agent opens what this process grants, on a subject of its node on which
only services can publish. Nothing of a session is kept here. A client asks again before the grant ends, so an intake
that starts again disturbs no session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rankd.bus.connection import LOST, Bus
from rankd.bus.endpoint import NodeHandler, Reply, Verb
from rankd.core.admission.permission import OwnedJob, check
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Unavailable
from rankd.core.model.setting import Settings
from rankd.core.session.attempt import Chosen, JobRuns, NodeNow, Wanted, check_reachable, choose, unreachable
from rankd.services.intake.look_turns import LookTurns
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.reading import Reader
from rankd.store.look.job_runs import job_runs, node_now
from rankd.wire.answer import error_of
from rankd.wire.codec import decode_of_node, decode_strict
from rankd.wire.delivery import ReportsTaken
from rankd.wire.session import GRANTED_S, Grant, JobLog, LogWish, Opened, SessionOpened, Wish
from rankd.wire.subject import OPENED, node_pattern, session_grant, session_out

AGAIN_S = 1.0
"""An agent that has just started, or is connecting again, may not have heard a grant."""
OPEN_S = 5.0
"""How long an agent has to open a session."""

Key = tuple[str, str, str]
"""Node, user and session."""


class SessionVerbs:
    """``settings`` returns the present ones."""

    def __init__(self, looks: LookTurns, bus: Bus, settings: Callable[[], Settings], clock: Clock) -> None:
        self._looks = looks
        self._bus = bus
        self._settings = settings
        self._clock = clock
        self._waiting: dict[Key, asyncio.Future[Opened]] = {}

    def verbs(self) -> list[Verb]:
        """The endpoints of users."""
        return [Verb("job.log", self.log)]

    def node_verbs(self) -> dict[str, tuple[str, NodeHandler]]:
        """The subject on which agents say that a session is open."""
        return {"node_opened": (node_pattern(OPENED), self.opened)}

    async def log(self, asker: Submitter, payload: bytes) -> Reply:
        """Let the agent send what a job has written."""
        wanted = decode_strict(payload, JobLog)
        which = Wanted(wanted.stream, wanted.attempt, wanted.node)
        job, chosen = await self.find(asker, "job.log", wanted.id, which)
        wish = LogWish(
            stream=wanted.stream,
            path=chosen.path,
            offset=wanted.offset,
            limit=wanted.limit,
            tail_lines=wanted.tail_lines,
            tail_bytes=wanted.tail_bytes,
            follow=wanted.follow,
            again=wanted.again,
            appends=job.appends,
        )
        return await self.grant(asker, job, chosen, wanted.session or secrets.token_hex(16), wish)

    async def find(self, asker: Submitter, action: str, name: int | str, wanted: Wanted) -> tuple[JobRuns, Chosen]:
        """The job and the run that are meant, if the asker has the right, and the node can be asked.

        Raises:
            Refused: ``not_owner``; as :func:`.choose`.
            Unavailable: ``node_unreachable``.
        """

        def query(connection: Connection) -> tuple[JobRuns, Chosen, NodeNow | None]:
            reader = _reader(connection)
            job = job_runs(reader, name)
            check(asker, action, OwnedJob(job.name, job.owner))
            chosen = choose(job, wanted)
            return job, chosen, node_now(reader, chosen.run.node)

        job, chosen, node = await self._looks.look(asker.user, query)
        check_reachable(chosen.run.node, node, self._settings().node.heartbeat_s, self._clock())
        return job, chosen

    async def grant(self, asker: Submitter, job: JobRuns, chosen: Chosen, session: str, wish: Wish) -> SessionOpened:
        """Let the agent open the session; returns once it has.

        Raises:
            RankdError: the agent's refusal.
            Unavailable: ``node_unreachable``: the agent does not answer.
        """
        now, run = self._clock(), chosen.run
        granted = Grant(
            user=asker.user,
            node=run.node,
            job=job.job,
            attempt=chosen.attempt,
            allocation=run.allocation,
            owner=job.owner,
            session=session,
            issued_at=now,
            expires_at=now + GRANTED_S,
            started_at=run.started_at,
            state=job.state,
            wish=wish,
        )
        opened = await self._ask(granted)
        if opened.error is not None:
            raise error_of(str(opened.status), opened.error)
        return SessionOpened(
            session=session,
            subject=session_out(asker.user, run.node, session),
            node=run.node,
            nodes=chosen.nodes,
            attempt=chosen.attempt,
            attempts=chosen.attempts,
            state=job.state,
            path=chosen.path,
        )

    async def _ask(self, granted: Grant) -> Opened:
        key = (granted.node, granted.user, granted.session)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(OPEN_S):
                while True:
                    await self._bus.publish(session_grant(granted.node), granted)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(AGAIN_S):
                            return await asyncio.shield(waiting)
        except TimeoutError:
            raise unreachable(granted.node) from None
        except LOST as error:
            raise Unavailable("bus_unavailable", f"the broker is away: {type(error).__name__}; try again") from error
        finally:
            if self._waiting.get(key) is waiting:
                del self._waiting[key]

    async def opened(self, node: str, payload: bytes) -> Reply:
        """An agent has opened a session, or says why not. What nobody waits for has no effect."""
        opened = decode_of_node(payload, Opened)
        waiting = self._waiting.get((node, opened.user, opened.session))
        if waiting is not None and not waiting.done():
            waiting.set_result(opened)
        return ReportsTaken(taken=1)


def _reader(connection: Any) -> Reader:  # noqa: ANN401 - SQLAlchemy's types leave the driver's connection open
    reader: Reader = connection.connection
    return reader
