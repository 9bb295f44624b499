from rankd.core.forecast.delay import MOST_NAMED, Taken, delay_causes


def test_the_delay_is_divided_by_cores_and_times():
    later = Taken("later jobs", "9", 90.0, 150.0, 3.0)
    longer = Taken("longer runs", "2", 100.0, 150.0, 1.0)
    first, second = delay_causes(100.0, 200.0, [longer, later])
    assert (first.kind, first.named, first.part, first.part_s) == ("later jobs", ["9"], 0.75, 75.0)
    assert (second.kind, second.part_s) == ("longer runs", 25.0)


def test_what_held_no_room_between_the_two_starts_has_no_part():
    before = Taken("later jobs", "9", 10.0, 90.0, 3.0)
    node = Taken("lost nodes", "n3", 50.0, 500.0, 8.0)
    [cause] = delay_causes(100.0, 200.0, [before, node])
    assert (cause.kind, cause.named, cause.part, cause.part_s) == ("lost nodes", ["n3"], 1.0, 100.0)


def test_without_any_of_them_the_order_has_changed():
    [cause] = delay_causes(100.0, 160.0, [])
    assert (cause.kind, cause.part_s) == ("order", 60.0)


def test_parts_add_up_and_only_the_largest_are_named():
    taken = [Taken("later jobs", str(job), 0.0, 1000.0, float(job)) for job in range(1, 20)]
    taken.append(Taken("longer runs", "77", 100.0, 101.0, 1.0))
    causes = delay_causes(100.0, 200.0, taken)
    assert abs(sum(cause.part_s for cause in causes) - 100.0) < 1e-9
    assert causes[0].count == 19
    assert causes[0].named == [str(job) for job in range(19, 19 - MOST_NAMED, -1)]
