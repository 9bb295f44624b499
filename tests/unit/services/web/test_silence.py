"""Which services are said to be silent."""

from rankd.services.web.silence import CONSEQUENCES, SILENT_S, are_all, silent


def test_a_service_without_a_sign_of_life_is_named_with_what_that_means():
    rows = [{"name": name, "alive_at": at} for name, at in (("intake", 100.0), ("scheduler", 60.0), ("notifier", 1.0))]
    assert silent(rows, 100.0 + SILENT_S) == [("scheduler", 40.0 + SILENT_S, CONSEQUENCES["scheduler"])]
    assert silent(rows, 60.0 + SILENT_S) == []


def test_only_if_all_are_silent_the_database_may_be_the_reason():
    rows = [{"name": name, "alive_at": 0.0} for name in (*CONSEQUENCES, "notifier")]
    assert are_all(silent(rows, 100.0))
    assert not are_all(silent(rows[1:], 100.0))
    assert not are_all([])
