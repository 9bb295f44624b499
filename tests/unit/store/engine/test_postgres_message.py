"""How transactions begin, and what a pipeline holds back. The integration tests have a real server."""

from rankd.store.engine.postgres_message import Beginning, _Held


def test_what_begins_a_transaction_where_the_session_has_some_of_the_settings():
    begin = Beginning("BEGIN", {"jit": "off", "lock_timeout": 5}, ("SELECT 1",))
    assert begin.statements(None) == ["BEGIN", "SET LOCAL jit TO off", "SET LOCAL lock_timeout TO 5", "SELECT 1"]
    assert begin.statements({"jit": "off"}) == ["BEGIN", "SET LOCAL lock_timeout TO 5", "SELECT 1"]
    assert begin.statements({"jit": "on"}) == begin.statements(None)
    assert begin.statements(begin.settings) == ["BEGIN", "SELECT 1"]


def test_what_is_held_back_is_sent_with_what_comes_after_its_release():
    sent, held = [], _Held()
    for word in "ab":
        held.append(lambda word=word: sent.append(word))
    assert not held, "psycopg finds something to send"
    held.release()
    assert not held
    held.append(lambda: sent.append("c"))
    assert len(held) == 1, "psycopg sends each by itself"
    held.popleft()()
    assert sent == ["a", "b", "c"]


def test_holding_begins_again():
    sent, held = [], _Held()
    held.release()
    held.append(lambda: sent.append("a"))
    held.popleft()()
    held.hold()
    held.append(lambda: sent.append("b"))
    assert (sent, len(held)) == (["a"], 0)
