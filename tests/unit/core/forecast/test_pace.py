from rankd.core.forecast.pace import AT_LEAST, Paces

ALICE, BOB = ("physics", "alice"), ("physics", "bob")


def paces(*counted):
    made = Paces()
    for pair, part, times in counted:
        for _ in range(times):
            made.add(pair, part * 100, 100)
    return made


def test_without_jobs_all_of_the_limit_is_used():
    assert paces().of(ALICE) == 1.0


def test_the_users_own_jobs_count_once_there_are_enough():
    made = paces((ALICE, 0.2, AT_LEAST), (BOB, 0.8, 200))
    assert made.of(ALICE) == 0.2
    assert made.of(BOB) == 0.8


def test_with_fewer_jobs_the_account_counts_and_then_the_site():
    assert paces((ALICE, 0.2, AT_LEAST - 1), (BOB, 0.8, 200)).of(ALICE) == 0.8
    assert paces((ALICE, 0.2, 1), (("chemistry", "carol"), 0.4, 30)).of(ALICE) == 0.4


def test_old_jobs_are_forgotten_and_parts_are_between_0_and_1():
    made = paces((ALICE, 0.9, 500), (ALICE, 0.1, 50))
    assert made.of(ALICE) == 0.1
    made = paces((ALICE, 3.0, AT_LEAST))
    assert made.of(ALICE) == 1.0
