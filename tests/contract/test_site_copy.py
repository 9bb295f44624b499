"""A site moves from one database into another, either way, with all that it holds."""

import pytest
from contract.engine import ENGINES
from contract.store import Store
from contract.world import DONE, NOW, fill_world, migrate, world_configuration
from sqlalchemy import insert, select

from rankd.core.errors import Refused, Unavailable
from rankd.store.engine.last_id import last_id
from rankd.store.look.dump import dump
from rankd.store.record.site_copy import check_stopped, copy_site, sum_of
from rankd.store.schema.table import jobs, metadata, node_events, roles


@pytest.fixture
async def pair(engine, tmp_path):
    """A site, and an empty database of the other engine."""
    [other] = [one for one in ENGINES if one.name != engine.name]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with (
        engine.open_copy(fill_world, tmp_path / "a") as source,
        other.open_copy(migrate, tmp_path / "b") as target,
    ):
        yield source, target


async def copied(source, target, note=lambda *_: None):
    with source._writing.begin() as one, target._writing.begin() as other:
        return copy_site(one, other, note)


async def all_sums(database):
    return await database.read(lambda c: [sum_of(c, table) for table in metadata.sorted_tables])


async def test_every_table_is_the_same_afterwards_and_ids_go_on(pair):
    source, target = pair
    seen = []
    sums = await copied(source, target, lambda *progress: seen.append(progress))
    assert await all_sums(target) == sums == await all_sums(source)
    assert {name: done for name, done, total in seen if done == total} == {s.name: s.rows for s in sums if s.rows}
    assert len([one for one in sums if one.rows]) > 25
    for name in ("jobs", "job_events"):
        assert await target.read(lambda c, n=name: last_id(c, n)) == await source.read(lambda c, n=name: last_id(c, n))
    event = {"node": "n1", "event": "up", "at": NOW, "actor": "root"}
    newest = await source.read(lambda c: last_id(c, "node_events"))
    made = await target.write(lambda c: c.execute(insert(node_events).values(event)).inserted_primary_key[0])
    assert made == newest + 1


async def test_an_id_of_a_deleted_row_is_not_given_again(pair):
    source, target = pair
    newest = await source.read(lambda c: last_id(c, "jobs"))
    await source.write(lambda c: c.execute(jobs.delete().where(jobs.c.id >= newest - 1)))
    await copied(source, target)
    assert await target.read(lambda c: last_id(c, "jobs")) == newest


async def test_a_second_run_changes_nothing_and_other_rows_are_refused(pair):
    source, target = pair
    first = await copied(source, target)
    assert await copied(source, target) == first
    await target.write(lambda c: c.execute(jobs.update().where(jobs.c.id == DONE).values(name="another")))
    before = await all_sums(target)
    with pytest.raises(Refused, match="jobs differ") as refused:
        await copied(source, target)
    assert refused.value.code == "not_empty"
    assert await all_sums(target) == before


async def test_a_copy_that_fails_leaves_nothing_and_can_be_repeated(pair):
    source, target = pair

    def fail(table, *_):
        if table == "jobs":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copied(source, target, fail)
    assert all(one.rows == 0 for one in await all_sums(target))
    assert await copied(source, target)


async def test_a_service_that_was_alive_a_moment_ago_is_running(store):
    role = {"name": "intake", "epoch": 1, "holder": "h:1", "since": NOW - 100, "alive_at": NOW - 4}
    await store.write(lambda c: c.execute(insert(roles).values(role)))
    with pytest.raises(Unavailable, match=r"intake .h:1. gave a sign of life 4 s ago: stop the services"):
        await store.read(lambda c: check_stopped(c, NOW))
    await store.read(lambda c: check_stopped(c, NOW + 20))
    assert await store.read(lambda c: c.execute(select(roles.c.name)).scalars().all()) == ["intake"]


async def test_a_copied_site_is_evaluated_the_same_and_texts_with_nul_arrive_mended(pair):
    source, target = pair
    await source.write(lambda c: c.execute(jobs.update().where(jobs.c.id == DONE).values(name="a\0b")))
    await copied(source, target)
    is_mended = "postgresql" in (source.url[:10], target.url[:10])
    assert await target.read(lambda c: c.execute(select(jobs.c.name).where(jobs.c.id == DONE)).scalar_one()) == (
        "a\N{REPLACEMENT CHARACTER}b" if is_mended else "a\0b"
    )
    await source.write(lambda c: c.execute(jobs.update().values(name="a")))
    await target.write(lambda c: c.execute(jobs.update().values(name="a")))
    of_source, of_target = await dumped(source), await dumped(target)
    assert of_source == of_target, "what `rankd evaluate` computes from"
    assert len(of_source.document["jobs"]) > 4


async def dumped(database):
    return await Store(database).look(dump, world_configuration(), None)
