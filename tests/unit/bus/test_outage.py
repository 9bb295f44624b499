"""An outage is logged when it begins and when it ends, and not on each failure between them."""

from rankd.bus.outage import Outage


def test_many_failures_are_one_outage(caplog):
    outage = Outage("nats://broker:4222")
    for _ in range(50):
        outage.lost(ConnectionRefusedError("refused"))
    assert "no connection to the broker at nats://broker:4222" in outage.described()
    outage.back()
    outage.back()
    began, ended = (record.getMessage() for record in caplog.records)
    assert began.startswith("no connection to the broker at nats://broker:4222 (ConnectionRefusedError: refused)")
    assert ended.startswith("connected to the broker at nats://broker:4222 again, after ")


def test_a_first_outage_may_be_short_without_being_logged(caplog):
    outage = Outage("nats://broker:4222")
    outage.quiet_s = 3600.0
    outage.lost(None)
    outage.lost(None)
    outage.back()
    assert not caplog.records
    outage.lost(None)
    outage.back()
    assert len(caplog.records) == 2, "a later one is logged"


def test_a_first_outage_that_lasts_is_logged(caplog):
    outage = Outage("nats://broker:4222")
    outage.quiet_s = 1e-9
    while not caplog.records:
        outage.lost(None)
    outage.back()
    assert [record.getMessage().partition(" the broker")[0] for record in caplog.records] == [
        "no connection to",
        "connected to",
    ]


def test_without_an_outage_nothing_is_logged_or_described(caplog):
    outage = Outage("nats://broker:4222")
    outage.back()
    assert outage.described() is None
    assert outage.lasts_s == 0.0
    assert not caplog.records
