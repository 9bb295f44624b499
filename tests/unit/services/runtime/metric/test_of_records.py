"""Rows of the records as figures."""

from rankd.core.metric.label import MOST, OTHER
from rankd.services.runtime.metric.of_records import site_figures_of
from rankd.store.look.site_figures import SiteRows

NOW = 1_000.0
EMPTY = SiteRows(
    jobs=[], users=[], nodes=[], silent=0, drained=[], devices=[], outbox={"events": 0, "first": None},
    notifications={"waiting": 0, "first": None}, adapters=[], generation=None, full_pass_at=None, roles=[],
)  # fmt: skip


def found(rows: SiteRows) -> dict:
    return {(figure.name, *figure.labels): figure.value for figure in site_figures_of(rows, NOW)}


def jobs(state, queue, reason, number):
    return {"state": state, "queue": queue, "reason": reason, "jobs": number}


def test_nothing_is_said_of_what_does_not_exist_yet():
    assert set(found(EMPTY).values()) == {0.0}
    assert ("rankd_generation",) not in found(EMPTY)


def test_users_beyond_the_named_ones_are_counted_together():
    rows = EMPTY._replace(
        jobs=[jobs("pending", "root.a", "resources", 10), jobs("running", "root.a", "", 5)],
        users=[{"user": "alice", "jobs": 6}, {"user": "bob\n", "jobs": 1}],
    )
    users = {key[1]: value for key, value in found(rows).items() if key[0] == "rankd_user_pending_jobs"}
    assert users == {"alice": 6, "bob\\n": 1, OTHER: 3}


def test_without_leave_to_name_users_none_is_named():
    rows = EMPTY._replace(jobs=[jobs("pending", "root.a", "resources", 10)])
    assert not [key for key in found(rows) if key[0] == "rankd_user_pending_jobs"]


def test_nodes_that_are_down_do_not_count_as_late():
    nodes = [{"state": "up", "nodes": 2, "oldest": 990.0}, {"state": "down", "nodes": 1, "oldest": 1.0}]
    rows = found(EMPTY._replace(nodes=nodes, silent=1))
    assert rows["rankd_nodes", "down"] == 1
    assert rows["rankd_node_oldest_heartbeat_timestamp_seconds",] == 990.0
    assert rows["rankd_nodes_silent",] == 1


def test_nodes_count_by_who_drained_them_also_if_nobody_did():
    rows = found(EMPTY._replace(drained=[{"who": "health check", "nodes": 2}]))
    counts = {key[1]: value for key, value in rows.items() if key[0] == "rankd_nodes_drained"}
    assert counts == {"health check": 2, "rankd": 0, "administrator": 0}


def device(model, state, held, number):
    return {"type": "gpu", "model": model, "state": state, "held": held, "devices": number}


def test_devices_count_by_model_and_use_and_models_are_bounded():
    several = [device("a100", "ok", 1, 5), device("a100", "ok", 0, 3), device("h100", "failed", 1, 1)]
    rows = found(EMPTY._replace(devices=[*several, device("h100", "failed", 0, 2)]))
    uses = {key[2:]: value for key, value in rows.items() if key[0] == "rankd_devices_by_model"}
    assert uses == {("a100", "in use"): 5, ("a100", "free"): 3, ("h100", "in use"): 1, ("h100", "failed"): 2}
    assert (rows["rankd_devices", "gpu", "ok"], rows["rankd_devices", "gpu", "failed"]) == (8, 3)
    many = found(EMPTY._replace(devices=[device(f"m{n:03}", "ok", 0, 1) for n in range(200)]))
    models = {key[2]: value for key, value in many.items() if key[0] == "rankd_devices_by_model"}
    assert len(models) == MOST + 1
    assert models[OTHER] == 200 - MOST


def test_lags_are_measured_to_now_and_never_negative():
    waiting = EMPTY._replace(outbox={"events": 3, "first": 940.0}, notifications={"waiting": 1, "first": 2_000.0})
    rows = found(waiting)
    assert (rows["rankd_event_lag_seconds",], rows["rankd_notification_oldest_seconds",]) == (60.0, 0.0)


def test_roles_adapters_and_factors():
    rows = found(
        EMPTY._replace(
            roles=[
                {"name": "intake", "epoch": 3, "alive_at": 999.0, "resigned_at": None},
                {"name": "scheduler", "epoch": 1, "alive_at": 900.0, "resigned_at": 950.0},
            ],
            adapters=[
                {"name": "hr", "state": "failing", "read_at": None},
                {"name": "ok", "state": "ok", "read_at": 5.0},
            ],
            generation={"number": 7, "ranked_at": 980.0, "made_at": 0.0, "failures": {"site": "it hangs"}},
            full_pass_at=980.0,
        )
    )
    assert (rows["rankd_role_held", "intake"], rows["rankd_role_held", "scheduler"]) == (1, 0)
    assert (rows["rankd_role_epoch", "intake"], rows["rankd_role_alive_timestamp_seconds", "intake"]) == (3, 999.0)
    assert (rows["rankd_adapter_failing", "hr"], rows["rankd_adapter_failing", "ok"]) == (1, 0)
    assert ("rankd_adapter_read_timestamp_seconds", "hr") not in rows
    assert rows["rankd_generation_timestamp_seconds",] == 980.0, "of an older version, without its own time"
    assert rows["rankd_factor_failing", "site"] == 1
