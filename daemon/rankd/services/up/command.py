"""What ``rankd up`` starts: the command line of each service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rankd.bus.address import user_in
from rankd.bus.tls_files import TlsFiles
from rankd.identity.credentials import (
    CA_FILE,
    NOTIFIER_CREDENTIALS,
    SERVICES_CREDENTIALS,
    WEB_CREDENTIALS,
    WEB_GATEWAY_CREDENTIALS,
)
from rankd.identity.signing_key import SIGNING_KEY
from rankd.plugin.interpreter import python_command

SIMULATED = "sim"
"""The name of the agent that has the simulated nodes."""
FORECASTER = "forecaster"
AUTH_DIRECTORY = "auth"
NODE_CREDENTIALS, ADMIN_CREDENTIALS = "node.creds", "admin.creds"
"""Files of the directory ``auth``. Simulated nodes run nothing of users': their agent is one of the services."""


def login_socket(directory: Path) -> Path:
    """Where users of this machine get credentials."""
    return directory.absolute() / "login.sock"


def auth_directory(directory: Path) -> Path:
    """Where a ``rankd up`` keeps its site's secret and credentials."""
    return directory.absolute() / AUTH_DIRECTORY


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. ``nats`` None means the embedded broker, on ``port`` (0: a free one) of ``listen``.

    ``db``: ``sqlite``, ``postgresql`` (an embedded server), or a server's URL; None means ``sqlite``.
    ``resources`` None means what this machine allows. ``keep_jobs``: running jobs outlive ``rankd up``. ``admin`` is
    the user who started it. ``has_authentication``: the embedded broker asks for credentials. ``is_shared``: other
    users of this machine may ask, and ``run_as`` says whose rights jobs have (``agent``, ``submitter``).
    ``is_encrypted``: the embedded broker encrypts its connections, with the certificate in ``tls`` or else with one
    for ``tls_names`` and the names of this machine. With ``nats``, ``tls`` has the files for connections to it.
    ``devices``: made-up ones of each node, such as ``gpu:a100:4``.
    ``has_notifications``: a notifier runs if the configuration allows notifications. ``has_web``: the page runs, on
    ``web_port`` of this machine (0: the last one that it had, or any).
    """

    directory: Path
    config: Path
    simulate: int = 0
    local_agent: bool = True
    agent_name: str
    resources: Mapping[str, str] | None = None
    labels: Mapping[str, str] = {}
    devices: tuple[str, ...] = ()
    nats: str | None = None
    db: str | None = None
    listen: str = "127.0.0.1"
    port: int = 0
    admin: str = "root"
    has_authentication: bool = True
    is_encrypted: bool = False
    tls: TlsFiles = TlsFiles()
    tls_names: tuple[str, ...] = ()
    is_shared: bool = False
    run_as: str = "agent"
    keep_jobs: bool = False
    has_notifications: bool = True
    has_web: bool = False
    web_port: int = 0

    @property
    def has_site(self) -> bool:
        """Whether this ``rankd up`` gives out the credentials for its broker."""
        return self.has_authentication and self.nats is None

    @property
    def is_passable(self) -> bool:
        """Whether others pass through the directory: to the socket, and to the output of jobs that run as them."""
        return self.is_shared or (self.run_as == "submitter" and os.geteuid() == 0)

    @property
    def client_tls(self) -> TlsFiles:
        """The files with which processes connect; for the embedded broker, all they need is in their credentials."""
        return TlsFiles() if self.nats is None else self.tls

    @property
    def agents(self) -> list[str]:
        """The names of the agents that run here."""
        return [self.agent_name] * self.local_agent + [SIMULATED] * bool(self.simulate)


def files_to_connect(options: UpOptions) -> TlsFiles:
    """The files with which any program of this user connects; what they hold is no secret, but for the key."""
    if options.nats is not None:
        return options.tls
    ca = auth_directory(options.directory) / CA_FILE
    return TlsFiles(ca if options.is_encrypted and ca.is_file() else None)


def service_commands(options: UpOptions, url: str, database: Path | str) -> list[tuple[str, list[str]]]:
    """The names and commands of the services in starting order; agents are last."""
    rankd = python_command("rankd")
    files = [*database_flag(database), "--config", str(options.config.absolute())]
    place = [*_broker(options, url, SERVICES_CREDENTIALS), *files]
    commands = [("intake", [*rankd, "intake", *place, *_intakes_rights(options)])]
    commands += [(name, [*rankd, name, *place]) for name in ("prioritizer", "scheduler", FORECASTER)]
    if options.has_notifications:
        commands.append(("notifier", [*rankd, *_notifier(options, url, database)]))
    if options.has_site:
        commands.append(("gateway", [*rankd, *_gateway(options, url)]))
    if options.has_web:
        commands.append(("web", [*rankd, *_web(options, url, database)]))
    if options.local_agent:
        local = [*_agent(options, url, options.agent_name, "agent", NODE_CREDENTIALS), *_rights(options)]
        offers = [*_given("resources", options.resources), *_labels(options.labels), *_devices(options)]
        commands.append(("agent", [*rankd, *local, *offers]))
    if options.simulate:
        simulated = _agent(options, url, SIMULATED, "agent-sim", SERVICES_CREDENTIALS)
        more = ["--simulate", str(options.simulate), *_labels({"simulated": "true"}), *_devices(options)]
        commands.append(("agent-sim", [*rankd, *simulated, *more]))
    return commands


def _intakes_rights(options: UpOptions) -> list[str]:
    """What the intake has to know of the rights of jobs.

    Without a node here, only root's jobs matter: one that were accepted now would run as root on a node here later.
    """
    return _rights(options) if options.local_agent or os.geteuid() == 0 else []


def _rights(options: UpOptions) -> list[str]:
    """Whose rights jobs have. Where there is a login socket to show who asks, root's own jobs run as root."""
    if options.run_as == "agent":
        return ["--run-as", "agent"]
    owner = ["--owner", options.admin] if options.has_site or os.geteuid() != 0 else []
    return ["--run-as", "submitter", *owner]


def broker_flag(url: str) -> list[str]:
    """The broker's option, unless its URL has a password: every user can see a command line."""
    return ["--nats", url] if user_in(url) is None else []


def database_flag(database: Path | str) -> list[str]:
    """The database's option. The URL of a server is in the environment: it may hold a password."""
    return ["--db", str(database)] if isinstance(database, Path) else []


def _broker(options: UpOptions, url: str, credentials: str) -> list[str]:
    """The broker and the credentials for it. The path of a file is no secret."""
    creds = ["--creds", str(auth_directory(options.directory) / credentials)] if options.has_site else []
    return [*broker_flag(url), *creds, *_tls(options.client_tls)]


def _tls(files: TlsFiles) -> list[str]:
    named = (("--ca", files.ca), ("--tls-cert", files.cert), ("--tls-key", files.key))
    return [word for flag, path in named if path is not None for word in (flag, str(path.absolute()))]


def _agent(options: UpOptions, url: str, name: str, folder: str, credentials: str) -> list[str]:
    state = str(options.directory.absolute() / folder)
    drain = [] if options.keep_jobs else ["--drain-on-stop"]
    if options.is_passable:  # where others may pass through to what is theirs
        drain += ["--output", str(options.directory.absolute() / "output")]
    return ["agent", *_broker(options, url, credentials), "--name", name, "--state", state, *drain]


def _gateway(options: UpOptions, url: str) -> list[str]:
    site = ["--site", str(auth_directory(options.directory)), "--socket", str(login_socket(options.directory))]
    share = ["--share"] if options.is_shared else []
    return ["gateway", *_broker(options, url, SERVICES_CREDENTIALS), *site, "--owner", options.admin, *share]


def _notifier(options: UpOptions, url: str, database: Path | str) -> list[str]:
    key = ["--key", str(signing_key(options))]
    files = [*database_flag(database), "--config", str(options.config.absolute())]
    return ["notifier", *_broker(options, url, NOTIFIER_CREDENTIALS), *files, *key]


def _web(options: UpOptions, url: str, database: Path | str) -> list[str]:
    auth = auth_directory(options.directory)
    asking = ["--gateway-creds", str(auth / WEB_GATEWAY_CREDENTIALS)] if options.has_site else []
    files = [*database_flag(database), "--state", str(auth)]
    own = ["--owner", options.admin, "--port", str(options.web_port)]
    return ["web", *_broker(options, url, WEB_CREDENTIALS), *asking, *files, *own]


def signing_key(options: UpOptions) -> Path:
    """The key with which notifications are signed."""
    return signing_key_in(options.directory)


def signing_key_in(directory: Path) -> Path:
    """The same, of the ``rankd up`` in this directory. It stands in for no credentials, so it is there without them."""
    return auth_directory(directory) / SIGNING_KEY


def _devices(options: UpOptions) -> list[str]:
    return [f"--device={text}" for text in options.devices]


def _labels(labels: Mapping[str, str]) -> list[str]:
    return _given("labels", labels or None)


def _given(flag: str, pairs: Mapping[str, str] | None) -> list[str]:
    return [] if pairs is None else [f"--{flag}={','.join(f'{name}={value}' for name, value in pairs.items())}"]
