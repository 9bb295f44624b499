"""Which gateway may ask for whom."""

from __future__ import annotations

from collections.abc import Collection

from rankd.core.errors import Refused

ROOT = "root"


def check_page(user: str, owner: str | None, barred: Collection[str], *, signs_in_others: bool) -> None:
    """Check that the page may ask for this user.

    By its link, the page signs in only ``owner``, who started the site. Others sign in at a proxy or by PAM, if the
    configuration says so. If not (``signs_in_others`` false), the page can't have authenticated them. It never has more
    than an ordinary user's rights.

    Raises:
        Refused: ``unknown_gateway``, ``revoked``.
    """
    if user in barred:
        message = f"an administrator has revoked the access of '{user}'; ask for it again"
        raise Refused("revoked", message, "user", status=403)
    if user == owner or (signs_in_others and user != ROOT):
        return
    message = f"the page may not ask for '{user}': it signs in {owner or 'nobody'}; others sign in at a proxy"
    more = "that is listed in [web] proxies of rankd.toml, or as [web] pam says"
    raise Refused("unknown_gateway", f"{message} {more}", status=403)


def check_gateway(
    gateway: str, user: str, trusted: Collection[str], barred: Collection[str] = (), *, has_rights: bool
) -> None:
    """Check that a node's gateway may ask for this user. That of the head needs no check: it has the site's secret.

    ``trusted``: the nodes that an administrator has listed. Root of such a node can ask as any user whom the
    node may name. So it may not name root, nor users who have more rights than an ordinary user (``has_rights``).
    ``barred``: the users whose access was revoked. No node lets them in again.

    Raises:
        Refused: ``unknown_gateway``, ``revoked``, ``not_permitted``.
    """
    if gateway not in trusted:
        message = f"node '{gateway}' may not vouch for its users; an administrator can let it: rankd node trust NODE"
        raise Refused("unknown_gateway", message, status=403)
    if user in barred:
        message = f"an administrator has revoked the access of '{user}'; ask for it again"
        raise Refused("revoked", message, "user", status=403)
    if has_rights or user == ROOT:
        message = f"'{user}' has an administrator's rights, and a node's gateway may not name such a user"
        raise Refused("not_permitted", f"{message}; ask with credentials (--nats, --creds)", "user", status=403)
