"""The nodes of a register, as the register itself lists them."""

import pytest

from rankd.core.errors import Refused
from rankd.identity.node_list import FILE, read_nodes
from rankd.identity.register import Register, given
from rankd.identity.register_file import REGISTER_FILE, change_register
from rankd.identity.site import Role


def test_the_nodes_of_the_register_and_nobody_else(tmp_path):
    def fill(register: Register) -> Register:
        for role, name in ((Role.NODE, "n1"), (Role.USER, "alice"), (Role.ADMIN, "root"), (Role.NODE, "n.2")):
            register = given(register, role, name, 1.0, None)
        return register

    assert FILE == REGISTER_FILE
    assert read_nodes(tmp_path) == frozenset()
    change_register(tmp_path, fill)
    assert read_nodes(tmp_path) == {"n1", "n.2"}


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"members": {"a": 1}}'])
def test_another_file_is_refused_with_its_name(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(Refused, match=FILE) as refused:
        read_nodes(tmp_path)
    assert refused.value.code == "bad_register"
