"""A job's rank over time, from samples that get rarer."""

from builder import NOW

from rankd.services.web.rank_memory import FIRST_S, MOST_SAMPLES, RAREST_S, RankMemory


def test_a_job_has_the_ranks_of_the_samples_in_which_it_was():
    memory = RankMemory()
    for place, jobs in enumerate([[7, 8], [8, 7, 9], [8]]):
        memory.note(NOW + place, jobs)
    assert memory.of(7) == [(NOW, 1), (NOW + 1, 2)]
    assert memory.of(9) == [(NOW + 1, 3)]
    assert memory.of(10) == []
    assert memory.since == NOW


def test_a_sample_is_due_after_a_while_and_more_rarely_the_longer_it_lasts():
    memory, now, taken = RankMemory(), NOW, 0
    assert memory.is_due(now)
    while now < NOW + 3 * 86_400:
        if memory.is_due(now):
            memory.note(now, [1])
            taken += 1
        now += FIRST_S
    ranks = memory.of(1)
    assert MOST_SAMPLES / 2 <= len(ranks) <= MOST_SAMPLES
    assert now - ranks[0][0] >= 0.9 * MOST_SAMPLES * RAREST_S  # a day
    assert taken < 3 * 86_400 / RAREST_S + 8 * MOST_SAMPLES


def test_a_clock_that_is_set_back_begins_anew():
    memory = RankMemory()
    memory.note(NOW, [1])
    assert memory.is_due(NOW - 3600)
    memory.note(NOW - 3600, [2])
    assert (memory.of(1), memory.of(2)) == ([], [(NOW - 3600, 1)])
