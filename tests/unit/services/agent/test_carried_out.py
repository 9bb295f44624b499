from rankd.services.agent.carried_out import MOST_NAMED, CarriedOut
from rankd.services.keeper.message import OrderJob
from rankd.wire.message import JobOrder


def test_an_order_is_told_until_it_is_recorded():
    told: list[str] = []
    done = CarriedOut()
    done.tell = told.append
    done.add("n1", 7)
    done.add("n1", 3)
    done.add("n2", 5)
    assert (told, done.of("n1"), done.of("n2"), done.of("n3")) == (["n1", "n1", "n2"], [3, 7], [5], [])
    done.add("n1", 9)  # while the request with the others is on its way
    done.recorded("n1", [3, 7])
    done.recorded("n2", [5])
    assert (done.of("n1"), done.of("n2")) == ([9], [])


def test_orders_are_passed_on_unless_the_keeper_is_too_old(caplog):
    asked: list[OrderJob] = []
    orders = CarriedOut()
    orders.pass_on([JobOrder(id=1, allocation=4, signal=10)])
    assert "older version" in caplog.text
    orders.ask = asked.append
    orders.pass_on([JobOrder(id=2, allocation=4, signal=10), JobOrder(id=3, allocation=4, time_limit_s=5.0)])
    assert asked == [OrderJob(allocation=4, order=2, signal=10), OrderJob(allocation=4, order=3, time_limit_s=5.0)]


def test_an_older_keeper_is_named_once_for_each_allocation(caplog):
    orders = CarriedOut()
    for _ in range(3):
        orders.pass_on([JobOrder(id=1, allocation=7, signal=10), JobOrder(id=2, allocation=8, signal=10)])
    assert [record.args for record in caplog.records] == [(7,), (8,)]


def test_what_is_remembered_of_an_older_keeper_is_bounded(caplog):
    orders = CarriedOut()
    for allocation in range(MOST_NAMED + 10):
        orders.pass_on([JobOrder(id=1, allocation=allocation, signal=10)])
    orders.pass_on([JobOrder(id=1, allocation=MOST_NAMED + 5, signal=10)])
    assert len(caplog.records) == MOST_NAMED
