"""Reports over the bus: fetched in parts, waited for while they are computed."""

import asyncio
from types import SimpleNamespace

import pytest

from rankd.cli.common import report, session
from rankd.cli.common.report import fetch_report, over_bus
from rankd.client import session as client_session
from rankd.core.errors import Refused
from rankd.wire.report import ReportMade, ReportPart, ReportRequest

ASKER = SimpleNamespace(subject=lambda verb: verb)


class Bus:
    """Answers with these parts, one after the other."""

    def __init__(self, *parts):
        self.asked = []
        self._parts = iter(parts)

    async def request(self, subject, payload, _kind):
        self.asked.append((subject, payload))
        return ReportMade(report="r1") if subject == "report.make" else next(self._parts)


@pytest.fixture
def fetched(monkeypatch):
    def run(bus):
        monkeypatch.setattr(session, "asker", lambda _arguments: ASKER)
        monkeypatch.setattr(client_session, "with_bus", lambda _place, action: asyncio.run(action(bus)))
        return fetch_report(None, None, ReportRequest(kind="dump"))

    return run


def test_parts_are_put_together_in_their_order(fetched):
    bus = Bus(ReportPart(parts=2, data=b"one,"), ReportPart(parts=2, data=b"two"))
    assert fetched(bus) == b"one,two"
    assert [payload for subject, payload in bus.asked if subject == "report.part"] == [
        b'{"report":"r1","part":0}', b'{"report":"r1","part":1}',
    ]  # fmt: skip


def test_a_part_that_is_not_ready_is_asked_for_again(fetched):
    bus = Bus(ReportPart(), ReportPart(), ReportPart(parts=1, data=b"now"))
    assert fetched(bus) == b"now"
    assert len({payload for subject, payload in bus.asked if subject == "report.part"}) == 1


def test_notes_go_to_standard_error(fetched, capsys):
    fetched(Bus(ReportPart(parts=1, data=b"x", notes=["generation 7 is 40 s old"])))
    assert capsys.readouterr() == ("", "rankd: generation 7 is 40 s old\n")


@pytest.mark.parametrize("uses_bus", [True, False])
def test_a_report_is_computed_here_where_the_database_is(monkeypatch, uses_bus):
    place = SimpleNamespace(uses_bus=uses_bus, reason="--nats")
    monkeypatch.setattr(report, "find", lambda _arguments: place)
    assert over_bus(SimpleNamespace()) is (place if uses_bus else None)


def test_the_services_configuration_needs_a_database(monkeypatch):
    monkeypatch.setattr(report, "find", lambda _arguments: SimpleNamespace(uses_bus=True, reason="--nats"))
    with pytest.raises(Refused, match="give --db FILE"):
        over_bus(SimpleNamespace(live_config="etc"))
