"""However many names users make up, and however they spell them, labels stay bounded and printable."""

from rankd.core.metric.label import LONGEST, OTHER, bounded, label, together


def test_a_hostile_name_is_printable_and_short():
    assert label('a"\n\x1b[31m\u202e') == 'a"\\n\\u001b[31m\\u202e'
    assert label("\udcff") == "\\udcff"
    assert len(label("x" * 10_000)) == LONGEST


def test_the_largest_are_kept_and_the_rest_counts_as_one():
    found = bounded({f"queue-{number}": number for number in range(1_000)}, most=3)
    assert found == {"queue-999": 999, "queue-998": 998, "queue-997": 997, OTHER: sum(range(997))}


def test_few_names_have_no_rest():
    assert bounded({"b": 1, "a": 1}) == {"a": 1, "b": 1}


def test_rows_of_names_that_are_not_kept_are_added_up_by_their_other_labels():
    rows = [(("pending", f"q{number}"), 10 - number) for number in range(4)] + [(("running", "q3"), 1)]
    found = {figure.labels: figure.value for figure in together("rankd_jobs", rows, place=1, most=2)}
    assert found == {("pending", "q0"): 10, ("pending", "q1"): 9, ("pending", OTHER): 15, ("running", OTHER): 1}


def test_names_that_look_the_same_are_added_up():
    [figure] = together("name", [(("x" * 100 + "a",), 1), (("x" * 100 + "b",), 2)], place=0)
    assert figure.value == 3
