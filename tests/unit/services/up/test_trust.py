"""A new broker of a site gets every account before it asks for one."""

import pytest

from rankd.identity.register import given
from rankd.identity.register_file import change_register
from rankd.identity.site import Role, read_site
from rankd.services.up.broker import write_configuration
from rankd.services.up.command import UpOptions, auth_directory
from rankd.services.up.trust import establish

NOW = 1_800_000_000.0
MEMBERS = ((Role.USER, "ann"), (Role.NODE, "n9"))


@pytest.fixture
def options(tmp_path):
    """A site that has given credentials to a user and a node, while other brokers were in use."""
    options = UpOptions(directory=tmp_path, config=tmp_path, agent_name="n")
    establish(options, NOW)
    for role, name in MEMBERS:
        change_register(auth_directory(tmp_path), lambda register, of=(role, name): given(register, *of, NOW, None))
    return options


def publics(trust):
    return [account.public for account in trust.accounts]


def of_members(options):
    site = read_site(auth_directory(options.directory))
    return [site.account_of(role, name) for role, name in MEMBERS]


def test_a_broker_gets_the_accounts_of_users_and_nodes_that_it_does_not_have(options):
    assert set(of_members(options)) <= set(publics(establish(options, NOW)))


def test_a_broker_does_not_get_accounts_again_that_it_keeps(options):
    user, node = of_members(options)
    kept = options.directory / "nats" / "accounts"
    kept.mkdir(parents=True)
    (kept / f"{user}.jwt").touch()
    found = publics(establish(options, NOW))
    assert user not in found
    assert found.count(node) == 1


def test_each_account_is_where_the_broker_looks_before_it_starts(options, tmp_path):
    trust = establish(options, NOW)
    write_configuration(tmp_path / "nats", "127.0.0.1", -1, trust)
    kept = tmp_path / "nats" / "accounts"
    wanted = {account.public: account.token for account in (trust.system, *trust.accounts)}
    assert {path.stem: path.read_text() for path in kept.iterdir()} == wanted


def test_what_the_broker_keeps_is_newer_and_stays(options, tmp_path):
    trust = establish(options, NOW)
    kept = tmp_path / "nats" / "accounts"
    kept.mkdir(parents=True)
    newer = kept / f"{trust.system.public}.jwt"
    newer.write_text("newer")
    write_configuration(tmp_path / "nats", "127.0.0.1", -1, trust)
    assert newer.read_text() == "newer"
