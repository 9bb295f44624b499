import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from rankd.core.errors import Refused
from rankd.identity.trusted_node import TRUSTED_FILE, read_trusted, set_trusted


def test_a_node_that_was_trusted_stays_on_the_list_so_that_the_broker_learns_of_it(tmp_path):
    assert read_trusted(tmp_path) == {}
    set_trusted(tmp_path, "n1", is_trusted=True)
    set_trusted(tmp_path, "n2", is_trusted=True)
    set_trusted(tmp_path, "n1", is_trusted=False)
    assert read_trusted(tmp_path) == {"n1": False, "n2": True}
    assert stat.S_IMODE((tmp_path / TRUSTED_FILE).stat().st_mode) == 0o600


def test_of_two_changes_at_the_same_time_none_is_lost(tmp_path):
    names = [f"n{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: set_trusted(tmp_path, name, is_trusted=True), names))
    assert read_trusted(tmp_path) == dict.fromkeys(names, True)


def test_a_damaged_list_is_an_error(tmp_path):
    (tmp_path / TRUSTED_FILE).write_text("[")
    with pytest.raises(Refused, match="can't be read"):
        read_trusted(tmp_path)
