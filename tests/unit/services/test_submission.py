"""A large batch is read in parts, so that other requests have their turn in between."""

import asyncio

import msgspec
from builder import admission_tables

from rankd.core.admission.admission_cache import Admission
from rankd.core.admission.submitter import Submitter
from rankd.core.model.service_setting import NotificationSettings
from rankd.core.model.setting import Settings
from rankd.services.intake.rests import Rests
from rankd.services.intake.submission import (
    AT_ONCE,
    read_beside_others,
    read_in_parts,
    read_submission,
    reply_of,
)

ALICE = Submitter("alice", privileged=False)


def batch(n):
    jobs = [{"command": ["true", str(number)]} if number % 100 else {} for number in range(n)]
    return msgspec.json.encode({"jobs": jobs})


async def test_others_have_their_turn_while_a_batch_is_read():
    payload, turns, is_over = batch(10 * AT_ONCE), 0, False

    async def other():
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        found = await read_beside_others(payload, ALICE, Admission(admission_tables()), Rests(lambda: 0.0))
        is_over = True
    assert turns >= 9
    assert found == read_submission(payload, ALICE, Admission(admission_tables()))
    assert (len(found.accepted), len(found.rejected)) == (9.9 * AT_ONCE, AT_ONCE / 10)


async def test_others_have_their_turn_between_large_jobs():
    arrays = [",".join(str(3 * number + number % 2 + place) for number in range(3000)) for place in range(20)]
    payload = msgspec.json.encode({"jobs": [{"command": ["true"], "array": array} for array in arrays]})
    assert len(read_submission(payload, ALICE, Admission(admission_tables())).accepted) == len(arrays)
    parts = list(read_in_parts(payload, ALICE, Admission(admission_tables())))
    assert len(parts) >= len(arrays) // 3


def asking(*targets):
    return {"command": ["true"], "notify": {"on": ["end"], "to": list(targets), "if_allowed": True}}


def test_the_answer_says_which_notifications_are_left_out_and_repeats_no_line_in_a_batch():
    settings = Settings(notifications=NotificationSettings(allow=["mailto:*@example.org"]))
    admission = Admission(admission_tables(settings=settings))
    good, bad, other = "mailto:a@example.org", "mailto:a@other.org", "mailto:b@other.org"
    single = read_submission(msgspec.json.encode(asking(good, bad)), ALICE, admission)
    assert reply_of(single, [1]).warning.startswith(f"the job does not notify '{bad}'")
    assert reply_of(read_submission(msgspec.json.encode(asking(good)), ALICE, admission), [1]).warning is None
    jobs = [asking(good, bad), asking(good), asking(good, bad), asking(good, other)]
    batch = read_submission(msgspec.json.encode({"jobs": jobs}), ALICE, admission)
    warnings = [one.warning for one in reply_of(batch, [1, 2, 3, 4]).accepted]
    assert [warning is not None for warning in warnings] == [True, False, False, True]
    assert other in warnings[3]
