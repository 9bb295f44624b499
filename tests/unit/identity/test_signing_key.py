"""The key with which notifications are signed."""

import hashlib
import hmac
import stat

import pytest

from rankd.core.errors import Refused
from rankd.identity.signing_key import open_signing_key, read_signing_key, signature


def test_it_is_made_once_and_for_its_owner_only(tmp_path):
    file = tmp_path / "notify.key"
    key = open_signing_key(file)
    assert open_signing_key(file) == key == read_signing_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert open_signing_key(file, is_renewed=True) != key


@pytest.mark.parametrize("text", ["", "short", "x" * 31, "-" * 64])
def test_another_text_is_refused(tmp_path, text):
    file = tmp_path / "notify.key"
    file.write_text(text)
    with pytest.raises(Refused, match="notify-key --renew"):
        open_signing_key(file)


def test_a_receiver_computes_the_same():
    assert signature("k" * 32, b"{}") == "sha256=" + hmac.new(b"k" * 32, b"{}", hashlib.sha256).hexdigest()
