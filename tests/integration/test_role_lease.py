"""Roles by lease in a real PostgreSQL server: who holds one, who takes over, and what a former holder can't write."""

import asyncio
import threading
import time
from contextlib import ExitStack, closing, suppress

import pytest
from builder import NOW
from integration.lease_stage import do, new_database, rows, until
from sqlalchemy.exc import SQLAlchemyError
from watch import PATIENCE_S

from rankd.core.errors import RoleLost, Unavailable
from rankd.core.role.lease import TTL_S
from rankd.store.engine import role_lease
from rankd.store.engine.close_watch import Sockets
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.engine.postgres import _DURABLE, PostgresDatabase
from rankd.store.engine.postgres_connection import connect
from rankd.store.engine.role_lease import RoleLease, boot_clock
from rankd.store.record.node import record_node_event

ROLE = "scheduler"


class OwnClock:
    """A machine's clock that tests set forward."""

    def __init__(self):
        self.ahead_s = 0.0

    def __call__(self):
        return boot_clock() + self.ahead_s


@pytest.fixture
def url():
    made, drop = new_database()
    yield made
    drop()


def note(connection):
    record_node_event(connection, "n1", "joined", NOW, "root")


async def nothing(*_):
    """Nobody has to be told."""


def events(url):
    return rows(url, "SELECT count(*) FROM node_events")[0][0]


def set_row(url, assignments):
    do(url, f"UPDATE roles SET {assignments}")


def standing_by(url):
    """A lease of another instance that waits for the role."""
    return closing(RoleLease(lambda: connect(url), ROLE))


def stop_renewing(database):
    """As if the process were cut off or paused: its lease runs out, and it does not know."""
    lease = database._leases[ROLE]
    lease._stop.set()
    lease._renewer.join()
    lease._stop.clear()
    lease._clock = lambda: lease._held.sent_at


async def test_the_first_holder_has_epoch_one_and_renews_its_lease(url, tmp_path):
    async with PostgresDatabase(url, tmp_path) as database:
        assert await database.take_role(ROLE, NOW) == 1
        [(taken_at, ttl_s)] = rows(url, "SELECT alive_at, ttl_s FROM roles")
        assert ttl_s == TTL_S
        await until(lambda: rows(url, "SELECT alive_at FROM roles")[0][0] > taken_at)
        await database.write(note, role=ROLE)
        assert 0 < await database.stay_alive(ROLE) <= TTL_S


async def test_resigning_keeps_the_epoch_and_the_next_holder_raises_it(url, tmp_path):
    async with PostgresDatabase(url, tmp_path) as database:
        await database.take_role(ROLE, NOW)
    assert rows(url, "SELECT epoch, resigned_at IS NOT NULL FROM roles") == [(1, True)]
    async with PostgresDatabase(url, tmp_path, own_clock=lambda: 0.0) as database:  # no time passes: it does not wait
        assert await database.take_role(ROLE, NOW) == 2
        database.note_ready(ROLE)
        database._leases[ROLE]._renew(database._leases[ROLE]._connected())
        [(takeover_s,)] = rows(url, "SELECT takeover_s FROM service")
        assert 0 <= takeover_s < PATIENCE_S


async def test_a_standby_does_not_take_a_role_that_is_renewed(url, tmp_path):
    async with PostgresDatabase(url, tmp_path) as holder:
        with standing_by(url) as lease:
            await holder.take_role(ROLE, NOW)
            alive = set()
            while len(alive) < 4:  # longer than a lease lasts without renewals
                assert not await asyncio.to_thread(lease.try_take)
                alive |= {lease._seen.row.renewed_at}
            await holder.write(note, role=ROLE)


async def test_of_two_standbys_exactly_one_takes_over(url, tmp_path):
    async with (
        PostgresDatabase(url, tmp_path) as holder,
        PostgresDatabase(url, tmp_path) as one,
        PostgresDatabase(url, tmp_path) as other,
        asyncio.TaskGroup() as group,
    ):
        await holder.take_role(ROLE, NOW)
        waiting = {group.create_task(each.take_role(ROLE, NOW)): each for each in (one, other)}
        stop_renewing(holder)
        [won], [lost] = await asyncio.wait(waiting, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert won.result() == 2
        await waiting[won].write(note, role=ROLE)
        for each in (holder, waiting[lost]):
            with pytest.raises(RoleLost):
                await each.write(note, role=ROLE)
        assert events(url) == 1
        lost.cancel()


async def test_many_race_for_a_free_role_and_one_wins(url):
    with ExitStack() as stack:
        leases = [stack.enter_context(standing_by(url)) for _ in range(4)]
        start = threading.Barrier(len(leases))

        def race(lease):
            start.wait(PATIENCE_S)
            return lease.try_take()

        won = await asyncio.gather(*(asyncio.to_thread(race, lease) for lease in leases))
        assert won.count(True) == 1
        assert rows(url, "SELECT epoch FROM roles") == [(1,)]


async def take_over_within_a_write(url, tmp_path):
    """The holder checks its role and is slow; a standby tries to take over meanwhile. What the standby achieved, and
    whether the holder's write was committed."""
    async with PostgresDatabase(url, tmp_path) as holder:
        with standing_by(url) as lease:
            await holder.take_role(ROLE, NOW)
            stop_renewing(holder)
            lease.try_take()
            set_row(url, "resigned_at = 1")
            taken = threading.Event()
            outcome = []

            def slow(connection):
                outcome.append(lease.try_take())
                taken.set()
                note(connection)

            await holder.write(slow, role=ROLE)
            assert taken.is_set()
            if not outcome[0]:
                assert await asyncio.to_thread(lease.try_take), "it takes over once the write has ended"
                with pytest.raises(RoleLost):
                    await holder.write(note, role=ROLE)
            return outcome[0], events(url)


async def test_a_take_over_does_not_slip_between_the_check_and_the_commit(url, tmp_path):
    assert await take_over_within_a_write(url, tmp_path) == (False, 1)


async def test_without_the_row_lock_a_former_holder_would_commit_after_the_take_over(url, tmp_path, monkeypatch):
    """The naive version: this is what the test above would see."""
    monkeypatch.setattr(role_lease, "_CHECK", role_lease._CHECK.replace("FOR KEY SHARE", ""))
    assert await take_over_within_a_write(url, tmp_path) == (True, 1)


async def test_a_renewal_does_not_wait_for_a_write_of_the_role(url, tmp_path):
    """A commit may wait for a standby server longer than a lease lasts."""
    async with PostgresDatabase(url, tmp_path) as database:
        await database.take_role(ROLE, NOW)
        lease = database._leases[ROLE]

        def slow(connection):
            note(connection)
            before = lease._held.sent_at
            until_at = time.monotonic() + PATIENCE_S
            while lease._held.sent_at < before + TTL_S:
                assert time.monotonic() < until_at
                connection.exec_driver_sql("SELECT pg_sleep(0.05)")

        await database.write(slow, role=ROLE)
        assert events(url) == 1


async def test_a_holder_whose_lease_may_be_over_by_its_own_clock_writes_nothing(url, tmp_path):
    clock = OwnClock()
    async with PostgresDatabase(url, tmp_path, own_clock=clock) as database:
        await database.take_role(ROLE, NOW)
        stop = database._leases[ROLE]._stop
        stop.set()  # no renewal any more
        database._leases[ROLE]._renewer.join()

        def paused(connection):
            note(connection)
            clock.ahead_s += TTL_S + 1

        with pytest.raises(RoleLost):
            await database.write(paused, role=ROLE)
        with pytest.raises(RoleLost):
            await database.stay_alive(ROLE)
        with pytest.raises(RoleLost):
            await database.write(note, role=ROLE)
    assert events(url) == 0
    assert rows(url, "SELECT epoch FROM roles") == [(1,)]


async def test_a_holder_that_was_paused_past_its_lease_does_not_renew_it_although_nobody_has_taken_it(url, tmp_path):
    clock = OwnClock()
    async with PostgresDatabase(url, tmp_path, own_clock=clock) as database:
        await database.take_role(ROLE, NOW)
        renewed = "SELECT alive_at FROM roles"
        [(first,)] = rows(url, renewed)
        await until(lambda: rows(url, renewed) != [(first,)])
        clock.ahead_s += TTL_S + 1
        await asyncio.to_thread(database._leases[ROLE]._renewer.join)
        before = rows(url, renewed)
        with pytest.raises(RoleLost):
            await database.stay_alive(ROLE)
        assert rows(url, renewed) == before


@pytest.mark.parametrize("step_s", [-3600, 3600])
async def test_a_step_of_the_databases_clock_costs_a_living_holder_nothing(url, tmp_path, step_s):
    async with PostgresDatabase(url, tmp_path) as holder:
        with standing_by(url) as lease:
            await holder.take_role(ROLE, NOW)
            renewals = set()
            while len(renewals) < 3:
                set_row(url, f"alive_at = alive_at - {step_s}")  # as the row looks after the clock's step
                assert not await asyncio.to_thread(lease.try_take)
                before = rows(url, "SELECT alive_at FROM roles")[0][0]
                await until(lambda known=before: rows(url, "SELECT alive_at FROM roles")[0][0] != known)
                assert not await asyncio.to_thread(lease.try_take)
                renewals |= {lease._seen.row.renewed_at}
            await holder.write(note, role=ROLE)


async def test_a_dead_holders_role_is_taken_although_the_databases_clock_was_set_back(url, tmp_path):
    async with PostgresDatabase(url, tmp_path) as holder, PostgresDatabase(url, tmp_path) as standby:
        await holder.take_role(ROLE, NOW)
        stop_renewing(holder)
        set_row(url, "alive_at = alive_at + 3600")
        async with asyncio.timeout(PATIENCE_S):
            assert await standby.take_role(ROLE, NOW) == 2


async def test_a_server_that_hangs_does_not_keep_a_service_from_ending(url, tmp_path, monkeypatch):
    monkeypatch.setattr(Sockets.join, "__defaults__", (0.2,))

    def hang(connection):
        note(connection)
        connection.exec_driver_sql("SELECT pg_sleep(600)")

    async def outcome_of(waiting):
        with pytest.raises(Unavailable):
            await waiting

    async def ended(waiting):
        with suppress(Unavailable, SQLAlchemyError):
            await waiting

    async with (
        asyncio.timeout(PATIENCE_S),
        asyncio.TaskGroup() as group,
        PostgresDatabase(url, tmp_path) as database,
    ):
        await database.take_role(ROLE, NOW)
        group.create_task(outcome_of(database.write(hang, role=ROLE)))
        group.create_task(outcome_of(database.read(lambda c: c.exec_driver_sql("SELECT pg_sleep(600)"))))
        for _ in range(8):  # more than the loop has threads
            group.create_task(ended(database.read_in_thread(lambda c: c.exec_driver_sql("SELECT pg_sleep(600)"))))
        while rows(url, SLEEPING)[0][0] < 5:
            await asyncio.sleep(0.02)
    assert events(url) == 0


SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(600)%'"


async def test_a_writer_that_is_cut_off_while_it_waits_for_the_lock_has_it_for_a_moment_only(url, tmp_path):
    """Services of a head that loses its network may wait for it. Nobody reads the answer to this one."""
    with closing(connect(url)) as slow, closing(connect(url)) as cut_off:
        slow.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout TO 25000")
        async with PostgresDatabase(url, tmp_path) as holder, PostgresDatabase(url, tmp_path) as other:
            loop = asyncio.get_running_loop()

            def holds(connection):
                note(connection)
                cut_off.pgconn.send_query("; ".join(_DURABLE.statements(None)).encode())
                while not rows(url, WAITING)[0][0]:
                    time.sleep(0.02)  # the server sends no notice
                return asyncio.run_coroutine_threadsafe(other.write(note), loop)

            await asyncio.wrap_future(await holder.write(holds))
            slow.execute("SELECT 1")  # the server had ended this connection, had the one that is cut off kept the lock
    assert events(url) == 2


WAITING = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


async def test_a_command_may_pause_in_its_transaction_for_longer_than_a_service(url, tmp_path):
    shown = lambda connection: connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one()  # noqa: E731
    async with PostgresDatabase(url, tmp_path) as database:
        await database.take_role(ROLE, NOW)
        assert await database.write(shown) == "30s"
        assert await database.write(shown, role=ROLE) == "2s"


async def test_a_service_without_a_role_begins_its_transactions_as_one_with_a_role(url, tmp_path):
    """The server looks after it from the moment at which it waits for the lock of all writers."""
    names = ("idle_in_transaction_session_timeout", "client_connection_check_interval")
    shown = lambda connection: [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]  # noqa: E731
    async with PostgresDatabase(url, tmp_path) as database, asyncio.TaskGroup() as tasks:
        group = GroupCommit(database, None, nothing, nothing)
        done = tasks.create_task(group.do(shown))
        await group.run_once()
        assert await done == ["2s", "1s"]


async def test_a_writer_that_is_paused_within_its_transaction_loses_it_and_others_write(url, tmp_path):
    async with PostgresDatabase(url, tmp_path) as holder, PostgresDatabase(url, tmp_path) as other:
        await holder.take_role(ROLE, NOW)
        loop = asyncio.get_running_loop()

        def paused(connection):
            note(connection)
            asyncio.run_coroutine_threadsafe(other.write(note), loop).result(PATIENCE_S)  # it waits for the lock

        with pytest.raises(Unavailable):
            await holder.write(paused, role=ROLE)
    assert events(url) == 1
