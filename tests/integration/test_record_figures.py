"""Figures of the records while the database is slow or away: who asks is answered, and told."""

import asyncio
import threading

from rankd.core.metric.figure import Figure
from rankd.services.runtime.metric.site import RecordFigures

NEW = Figure("rankd_nodes_silent", 3)


async def test_a_scrape_does_not_wait_for_a_reading_that_takes_long(tmp_path):
    records, go_on = RecordFigures(tmp_path / "none.db", lambda: 5.0, wait_s=0.0), threading.Event()

    def slow():
        go_on.wait()
        return [NEW]

    records._read = slow
    assert await asyncio.gather(*(records.read() for _ in range(20))) == [[]] * 20
    go_on.set()
    while not (found := await records.read()):
        await asyncio.sleep(0)
    assert found[0] == NEW
    assert {figure.name: figure.value for figure in found}["rankd_records_timestamp_seconds"] == 5.0
    assert await records.read() is found, "it is read again after some seconds only"
    records.close()


async def test_a_database_that_is_away_is_said(tmp_path):
    records = RecordFigures(tmp_path / "none.db", lambda: 5.0, wait_s=60.0)
    assert await records.read() == [Figure("rankd_records_readable", 0)]
    records.close()
