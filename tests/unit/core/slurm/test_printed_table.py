"""Tables with bars, as ``sacctmgr -P`` prints them."""

from rankd.core.slurm.printed_table import parse_table
from rankd.core.slurm.reading import Reading

TREE = """Account|User|Share|Def QOS
root|||
 physics||10|normal
  physics|alice|1|
"""


def test_leading_blanks_are_the_depth_and_columns_may_be_in_any_order():
    table = parse_table(TREE, Reading("t"))
    assert [(row.line, row.depth, row.get("account"), row.get("user")) for row in table.rows] == [
        (2, 0, "root", ""),
        (3, 1, "physics", ""),
        (4, 2, "physics", "alice"),
    ]
    turned = "\n".join("|".join(reversed(line.split("|"))) for line in TREE.splitlines())
    assert [row.cells for row in parse_table(turned, Reading("t")).rows] == [row.cells for row in table.rows]


def test_cells_that_nobody_used_are_listed_by_their_titles_unless_they_say_nothing():
    table = parse_table(TREE, Reading("t"))
    assert table.left(table.rows[1], ("account", "user", "share")) == ["Def QOS=normal"]
    assert table.left(table.rows[2], ("account", "user", "share")) == []


def test_a_bar_at_the_end_of_each_line_changes_nothing():
    with_bars = "\n".join(f"{line}|" for line in TREE.splitlines())
    assert [row.cells for row in parse_table(with_bars, Reading("t")).rows] == [
        row.cells for row in parse_table(TREE, Reading("t")).rows
    ]


def test_a_line_that_was_cut_off_and_an_empty_file_are_refused_with_their_line():
    reading = Reading("t")
    assert len(parse_table(f"{TREE}  physics|bo", reading).rows) == 3
    parse_table("\n\n", reading)
    assert [problem.line for problem in reading.problems] == [5, 0]
