"""An order of reading and an index that the database does not choose itself."""

import pytest
from builder import new_database
from query_plan import plans
from sqlalchemy import and_, bindparam, create_engine, func, select
from sqlalchemy.exc import OperationalError

from rankd.store.engine.listed import listed
from rankd.store.engine.plan import by_index, in_order, most
from rankd.store.engine.url import open_database
from rankd.store.schema.table import allocation_nodes, allocations, jobs

IS_PART = allocation_nodes.c.allocation_id == allocations.c.id


@pytest.fixture
async def database(tmp_path):
    async with open_database(new_database(tmp_path), durable=False) as opened:
        yield opened


def steps_of(statement, parameters=None):
    def run(connection):
        with plans(connection) as found:
            connection.execute(statement, parameters or {}).all()
        [(_, steps)] = found
        return steps

    return run


@pytest.mark.parametrize("tables", [(allocations, allocation_nodes), (allocation_nodes, allocations)])
async def test_the_left_side_is_read_first(database, tables):
    statement = select(jobs.c.id).select_from(
        in_order(in_order(*tables, IS_PART), jobs, jobs.c.id == allocations.c.job_id)
    )
    steps = await database.read(steps_of(statement))
    assert [step.split()[1] for step in steps] == [*(table.name for table in tables), "jobs"]


async def test_an_order_holds_for_lists_and_beside_other_joins(database):
    wanted = listed("ids")
    first = in_order(wanted, allocations, allocations.c.id == wanted.c.value)
    statement = select(allocation_nodes.c.node).select_from(first.join(allocation_nodes, IS_PART))
    steps = await database.read(steps_of(statement, {"ids": [1, 2]}))
    assert "VIRTUAL TABLE" in steps[0]
    assert "allocations USING INTEGER PRIMARY KEY" in steps[1]
    await database.write(steps_of(statement, {"ids": []}))


async def test_a_condition_of_the_join_may_have_a_parameter(database):
    own = and_(IS_PART, allocation_nodes.c.node == bindparam("node"))
    statement = select(allocations.c.id).select_from(in_order(allocations, allocation_nodes, own))
    assert len(await database.read(steps_of(statement, {"node": "n1"}))) == 2


def test_another_database_joins_without_an_order():
    text = str(select(allocations.c.id).select_from(in_order(allocations, allocation_nodes, IS_PART)))
    assert "CROSS" not in text
    assert "allocations JOIN allocation_nodes ON" in text


async def test_the_given_index_is_used_by_readers_and_the_writer(database):
    pending = select(func.count()).select_from(jobs).where(jobs.c.user == "alice", jobs.c.revision > 3)
    for run in (database.read, database.write):
        [usual] = await run(steps_of(pending))
        [chosen] = await run(steps_of(by_index(pending, jobs, "jobs_revision")))
        assert "jobs_user" in usual
        assert "jobs_revision" in chosen


async def test_an_index_that_does_not_exist_is_an_error(database):
    with pytest.raises(OperationalError, match="no such index"):
        await database.read(lambda c: c.execute(by_index(select(jobs.c.id), jobs, "nowhere")))


def test_another_connection_to_sqlite_runs_the_statement_without_its_index():
    statement = by_index(select(jobs.c.id), jobs, "nowhere")
    with create_engine("sqlite://").connect() as connection:
        jobs.create(connection)
        assert connection.execute(statement).all() == []


def test_a_number_of_rows_is_no_parameter():
    statement = select(jobs.c.id).limit(most(7))
    assert "LIMIT 7" in str(statement)
    assert 7 not in statement.compile().params.values()
