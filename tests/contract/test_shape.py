"""What the jobs of one shape ask for: read once per shape."""

from contract.world import FIRST, RUNNING

from rankd.store.feed.pending import shapes_of
from rankd.store.feed.shape import read_shape


async def test_the_shapes_of_several_jobs(world):
    expected = await world.read(read_shape, RUNNING)
    found = await world.read(shapes_of, [RUNNING])
    assert [(row.nodes, row.vcore, row.resources) for row in found.values()] == [
        (expected.nodes, expected.vcore, expected.resources)
    ]
    assert found.items() <= (await world.read(shapes_of, [FIRST, RUNNING, 99])).items()
    assert await world.read(shapes_of, []) == {}
