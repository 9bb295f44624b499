"""One writer at a time, also when the one before failed."""

import threading

import pytest

from rankd.identity.one_writer import one_writer


def test_the_second_writer_waits_for_the_first(tmp_path):
    seen, begun = [], threading.Event()

    def second():
        begun.set()
        with one_writer(tmp_path):
            seen.append("second")

    with one_writer(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        begun.wait()
        seen.append("first")
    thread.join()
    assert seen == ["first", "second"]


def test_a_writer_that_fails_does_not_keep_the_directory(tmp_path):
    with pytest.raises(KeyError), one_writer(tmp_path):
        raise KeyError
    with one_writer(tmp_path):
        pass


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), one_writer(tmp_path / "none"):
        pass
