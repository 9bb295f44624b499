"""Requests about dead letters: submit them again as the user who sent them, or drop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from rankd.bus.endpoint import Reply, Verb
from rankd.core.admission.submitter import Submitter
from rankd.core.change.dead_letter import check_whole, waiting_letter
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.core.model.service_setting import NotificationSettings
from rankd.services.intake.durable_submission import Submit
from rankd.services.intake.look_verbs import LookVerbs, own_users
from rankd.services.intake.submission import rejected_of
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import PART, GroupCommit, News
from rankd.store.look.page import letter_page
from rankd.store.record.dead_letter import NOTIFICATION, StoredLetter, drop_letters, heads, settle, still_dead, stored
from rankd.store.record.notification import send_again
from rankd.wire.codec import decode_strict
from rankd.wire.message import DeadLetterFilter, DeadLetterSelection, Failed, LettersReply, SettledLetter


class DeadLetterVerbs:
    """``deadletter.list``, ``deadletter.retry``, ``deadletter.drop``: users their own, administrators any."""

    def __init__(
        self,
        database: Database,
        group: GroupCommit,
        submit: Submit,
        looks: LookVerbs,
        settings: Callable[[], NotificationSettings],
        clock: Clock,
    ) -> None:
        self._looks = looks
        self._settings = settings
        self._database = database
        self._group = group
        self._submit = submit
        self._clock = clock

    def verbs(self) -> list[Verb]:
        """The endpoints."""
        return [
            Verb("deadletter.list", self.listed),
            Verb("deadletter.retry", self.retry),
            Verb("deadletter.drop", self.drop),
        ]

    async def listed(self, asker: Submitter, payload: bytes) -> Reply:
        """Return letters, oldest first."""
        wanted = decode_strict(payload, DeadLetterFilter)
        users = own_users(asker, wanted.users, "deadletter.list", "looking at dead letters")
        wanted = msgspec.structs.replace(wanted, users=users)
        return await self._looks.page(asker, lambda reader: letter_page(reader, wanted))

    async def retry(self, asker: Submitter, payload: bytes) -> Reply:
        """Submit letters again under the same key: a submission that has become a job meanwhile stays that job."""
        done, failed = list[SettledLetter](), list[Failed]()
        for id_ in dict.fromkeys(decode_strict(payload, DeadLetterSelection).ids):
            try:
                letter = await self._letter(id_, asker)
                done.append(SettledLetter(id=id_, jobs=await self._retried(letter, asker)))
            except Unavailable:
                raise
            except RankdError as error:
                failed.append(Failed(id=id_, code=error.code, message=error.message))
        return LettersReply(done=done, failed=failed)

    async def _letter(self, id_: int, asker: Submitter) -> StoredLetter:
        found = await self._database.read(lambda connection: stored(connection, [id_]))
        return waiting_letter(id_, found.get(id_), asker, "deadletter.retry")

    async def _retried(self, letter: StoredLetter, asker: Submitter) -> list[int]:
        check_whole(letter.id, len(letter.payload), letter.n_bytes)
        if letter.kind == NOTIFICATION:
            return await self._notify_again(letter, asker)
        try:
            submission, ids, error = await self._submit(Submitter(letter.user, False), letter.payload, letter.key)
            if rejected := rejected_of(submission, ids, error):
                raise Refused(rejected[0].code, rejected[0].message, rejected[0].field)
        except Unavailable:
            raise
        except RankdError as error:
            reason = error
            await self._group.do(lambda connection: still_dead(connection, letter.id, reason), news=News.NOBODY)
            raise
        now = self._clock()
        await self._group.do(lambda connection: settle(connection, letter.id, "retried", asker.user, now, ids))
        return ids

    async def _notify_again(self, letter: StoredLetter, asker: Submitter) -> list[int]:
        """Give a notification to the notifier again; returns its job."""
        now, settings = self._clock(), self._settings()

        def again(connection: Connection) -> int:
            job = send_again(connection, letter.payload, settings, now)
            settle(connection, letter.id, "retried", asker.user, now)
            return job

        await self._group.do(again, client=asker.user)
        return []

    async def drop(self, asker: Submitter, payload: bytes) -> Reply:
        """Drop letters: they stay in the records but are not listed. Many are done in parts, so others can write."""
        ids = list(dict.fromkeys(decode_strict(payload, DeadLetterSelection).ids))
        done, failed = list[SettledLetter](), list[Failed]()
        for start in range(0, len(ids), PART):
            part = ids[start : start + PART]
            work = partial(_dropped, ids=part, asker=asker, now=self._clock())
            reply = await self._group.do(work, client=asker.user, weight=len(part))
            done += reply.done
            failed += reply.failed
        return LettersReply(done=done, failed=failed)


def _dropped(connection: Connection, ids: Sequence[int], asker: Submitter, now: float) -> LettersReply:
    """Drop the letters with two statements, for any number of letters."""
    known, done, failed = heads(connection, ids), list[int](), list[Failed]()
    for id_ in ids:
        try:
            done.append(waiting_letter(id_, known.get(id_), asker, "deadletter.drop").id)
        except Refused as error:
            failed.append(Failed(id=id_, code=error.code, message=error.message))
    drop_letters(connection, done, asker.user, now)
    return LettersReply(done=[SettledLetter(id=id_) for id_ in done], failed=failed)
