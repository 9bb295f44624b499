"""QoS as ``sacctmgr -P show qos`` prints them."""

from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Reading

TABLE = """Name|Priority|GraceTime|PreemptMode|UsageFactor|MaxWall
normal|0|00:00:00|cluster|1.000000|
high|500|00:00:00|cluster|2.000000|1-00:00:00
"""


def test_names_priorities_and_factors_are_kept_in_the_tables_order():
    found = parse_qos(TABLE, Reading("qos"))
    assert [(qos.name, qos.priority, qos.usage_factor) for qos in found.qos] == [("normal", 0, 1.0), ("high", 500, 2.0)]


def test_what_rankd_cannot_keep_is_remarked_and_defaults_are_not():
    reading = Reading("qos")
    parse_qos(TABLE, reading)
    [remark] = reading.remarks
    assert str(remark).startswith("qos:3: QoS 'high': no equivalent in rankd for MaxWall=1-00:00:00; jobs may ask for")


def test_a_qos_without_a_name_or_listed_twice_is_refused():
    reading = Reading("qos")
    found = parse_qos("Name|Priority\nnormal|0\n|1\nnormal|2\n", reading)
    assert [problem.line for problem in reading.problems] == [3, 4]
    assert [qos.priority for qos in found.qos] == [0]


def test_another_table_is_refused():
    reading = Reading("qos")
    assert parse_qos("User|Admin\nann|None\n", reading).qos == ()
    assert reading.problems
