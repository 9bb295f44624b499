"""Reports of what a node was never given: all are counted, and few are logged."""

from rankd.services.intake.foreign_report import LOG_EVERY_S, MOST_NODES, ForeignReports


def test_a_line_a_minute_for_each_node_with_the_number_since_the_last(caplog):
    now = 0.0
    reports = ForeignReports(lambda: now)
    reports.note("n1", [17])
    reports.note("n1", [18, 19])
    reports.note("n2", [20])
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "node 'n1' reported allocation 17",
        "node 'n2' reported allocation 20",
    ]
    now += LOG_EVERY_S
    reports.note("n1", [21])
    assert "allocation 21, which it was never given: 3 such reports since the last line" in caplog.text
    assert reports.count == 5


def test_the_memory_of_nodes_has_an_end():
    reports = ForeignReports(lambda: 0.0)
    for number in range(MOST_NODES + 5):
        reports.note(f"n{number}", [1])
    assert len(reports._log_at) <= MOST_NODES
