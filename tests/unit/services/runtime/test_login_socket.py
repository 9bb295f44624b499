"""The socket of a gateway."""

import pytest

from rankd.core.errors import Refused
from rankd.services.runtime.login_socket import _listening


def test_a_missing_directory_is_answered_with_what_to_make(tmp_path):
    with pytest.raises(Refused, match=rf"make the directory {tmp_path}/run first, where others may pass"):
        _listening(tmp_path / "run" / "login.sock", is_shared=True)


def test_an_error_of_another_kind_does_not_name_the_directory(tmp_path):
    (tmp_path / "login.sock").mkdir()
    with pytest.raises(Refused, match=r"no socket can be made at .*login\.sock: [^;]*$"):
        _listening(tmp_path / "login.sock", is_shared=True)
