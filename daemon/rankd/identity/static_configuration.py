"""The accounts of a site for a NATS server that has them in its configuration file, without signed tokens.

The same walls as :mod:`rankd.identity.reach` builds with tokens: an account for the services and for each user and
node. Each has one key (nkey), which comes from the site's secret, so that the text can be printed again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rankd.identity.claims import ANSWER_WITHIN_S, Export, Import
from rankd.identity.reach import (
    admin_imports,
    hub_exports,
    hub_imports,
    node_exports,
    node_imports,
    services_exports,
    session_imports,
    user_imports,
)
from rankd.identity.site import NOTIFIERS_REACH, USER_LIMITS, Role, Site
from rankd.wire.subject import NOTIFIER, encode_name

SERVICES, SESSIONS = "RANKD", "RANKD-sessions"
_IMPORTS: Mapping[Role, Callable[[str, str], list[Import]]] = {
    Role.ADMIN: admin_imports,
    Role.USER: user_imports,
    Role.NODE: node_imports,
}


class Member(NamedTuple):
    """Who gets an account: an administrator, a user or a node."""

    role: Role
    name: str


def configuration(site: Site, members: Sequence[Member]) -> str:
    """The block ``accounts`` of the server's configuration file."""
    services = [
        "jetstream: enabled",
        f"users: [{{nkey: {site.static_key(Role.SERVICES, '').public}}}, {_notifier(site)}]",
        *_listed("exports", (_export(one) for one in services_exports())),
        *_listed("imports", (_import(one) for one in session_imports(SESSIONS, None))),
    ]
    nodes = {member.name: account_name(member) for member in members if member.role is Role.NODE}
    hub = [
        *_listed("exports", (_export(one) for one in hub_exports())),
        *_listed("imports", (_import(one) for one in hub_imports(nodes))),
    ]
    blocks = [_block(SERVICES, services), _block(SESSIONS, hub), *(_account(site, member) for member in members)]
    return "accounts {\n" + "\n".join(blocks) + "\n}\n"


def _notifier(site: Site) -> str:
    """The notifier, a user of the services' account with few rights."""
    publish, subscribe = (_texts(subjects) for subjects in (NOTIFIERS_REACH.publish, NOTIFIERS_REACH.subscribe))
    answers = f'{{max: 1, expires: "{ANSWER_WITHIN_S}s"}}'
    rights = f"{{publish: {{allow: {publish}}}, subscribe: {{allow: {subscribe}}}, allow_responses: {answers}}}"
    return f"{{nkey: {site.static_key(Role.NOTIFIER, NOTIFIER).public}, permissions: {rights}}}"


def _texts(subjects: Iterable[str]) -> str:
    quoted = (f'"{subject}"' for subject in subjects)
    return f"[{', '.join(quoted)}]"


def account_name(member: Member) -> str:
    """The name of an account in the file. A user and an administrator of one name have one account.

    >>> account_name(Member(Role.NODE, "gpu.1"))
    'RANKD-node-gpu%2E1'
    """
    kind = Role.USER if member.role is Role.ADMIN else member.role
    return f"{SERVICES}-{kind}-{encode_name(member.name)}"


def _account(site: Site, member: Member) -> str:
    limits = f"{{max_connections: {USER_LIMITS.connections}, max_subscriptions: {USER_LIMITS.subscriptions}}}"
    imports, exports = _IMPORTS[member.role](SERVICES, member.name), []
    if member.role is Role.NODE:
        exports = _listed("exports", (_export(one) for one in node_exports(member.name)))
    else:
        imports += session_imports(SESSIONS, member.name)
    return _block(
        account_name(member),
        [
            f"users: [{{nkey: {site.static_key(*member).public}}}]",
            f"limits: {limits}",
            *exports,
            *_listed("imports", (_import(one) for one in imports)),
        ],
    )


def _block(name: str, lines: Iterable[str]) -> str:
    return "\n".join([f'  "{name}": {{', *(f"    {line}" for line in lines), "  }"])


def _listed(name: str, items: Iterable[str]) -> list[str]:
    return [f"{name}: [", *(f"  {item}" for item in items), "]"]


def _export(one: Export) -> str:
    response = "" if one.response_type is None else f", response_type: {one.response_type.lower()}"
    return f'{{{one.type}: "{one.subject}"{response}}}'


def _import(one: Import) -> str:
    return f'{{{one.type}: {{account: "{one.account}", subject: "{one.subject}"}}}}'
