from rankd.client.key import with_keys

JOB = {"command": ["true"]}


def test_a_job_has_the_given_key_else_its_own_else_a_new_one():
    assert with_keys([JOB], "k")[0]["key"] == "k"
    assert with_keys([{**JOB, "key": "own"}], None)[0]["key"] == "own"
    first, second = (with_keys([JOB], None)[0]["key"] for _ in range(2))
    assert first != second


def test_jobs_of_a_list_never_share_a_key():
    copies = with_keys([{**JOB, "key": "own"}] * 3, None)
    assert len({job["key"] for job in copies}) == 3
    distinct = with_keys([{**JOB, "key": "a"}, {**JOB, "key": "b"}], None)
    assert [job["key"] for job in distinct] == ["a", "b"]
    assert [job["key"] for job in with_keys([JOB, JOB], "k")] == ["k-0", "k-1"]
