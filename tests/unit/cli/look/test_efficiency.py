"""What a job used beside what it asked for."""

from rankd.cli.look.efficiency import efficiency_fields


def shown(row, core_s=400.0, elapsed_s=100.0):
    return {field.header: field.shown(row) for field in efficiency_fields(lambda _: core_s, lambda _: elapsed_s)}


def test_use_is_shown_beside_what_was_asked_for():
    row = {"cpu_s": 150.0, "max_rss_bytes": 2**30, "resources": {"memory": 2**31}, "gpu_utilisation": 0.25}
    assert shown(row | {"waited_held_s": 60.0, "waited_quota_s": 5.0}) == {
        "MeanCPUs": "1.50",
        "CPUEff": "38%",
        "MemEff": "50%",
        "GPUEff": "25%",
        "Waited": "1:05",
    }


def test_what_was_not_measured_is_empty():
    assert set(shown({"cpu_s": None, "max_rss_bytes": None, "resources": {}}).values()) == {""}
    assert shown({"cpu_s": 1.0, "resources": None}, 0.0, 0.0)["CPUEff"] == ""
