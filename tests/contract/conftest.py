"""Each test of this folder runs once per engine, on a store of its own."""

import pytest
from contract.engine import ENGINES
from contract.store import Store
from contract.world import fill_world, migrate

from rankd.store.record.catalog import read_catalog


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request):
    """An engine; the other fixtures are made with it."""
    return request.param


@pytest.fixture
async def store(engine, tmp_path):
    """The newest schema, without any rows."""
    async with engine.open_copy(migrate, tmp_path) as database:
        yield Store(database)


@pytest.fixture
async def world(engine, tmp_path):
    """The rows that :mod:`contract.world` describes: some for every view."""
    async with engine.open_copy(fill_world, tmp_path) as database:
        opened = Store(database)
        opened.catalog = await opened.read(read_catalog)
        yield opened
