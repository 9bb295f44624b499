"""Connections to brokers with a password are never stored with a job."""

import pytest

from rankd.core.model.secret import is_secret, without_secrets


@pytest.mark.parametrize("scheme", ["nats", "NATS", "tls", "ws", "wss"])
def test_a_broker_with_a_user_is_a_secret_in_any_variable(scheme):
    assert is_secret("MY_BROKER", f"{scheme}://ann:secret@broker:4222")
    assert is_secret("LIST", f"first,{scheme}://token@broker:4222")
    assert not is_secret("MY_BROKER", f"{scheme}://broker:4222")


def test_rankds_own_variable_is_never_stored_and_others_stay_as_they_are():
    kept = {"HOME": "/home/ann", "DB": "postgres://u:p@h", "MAIL": "ann@example.org"}
    assert without_secrets({"RANKD_NATS": "nats://broker:4222", **kept}) == kept
