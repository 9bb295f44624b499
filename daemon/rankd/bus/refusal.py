"""Refusals: how an error is sent in a reply, and how the receiver raises it again."""

from __future__ import annotations

import msgspec
from nats.aio.msg import Msg

from rankd.bus.address import user_in, without_secret
from rankd.core.errors import RankdError, Refused
from rankd.identity.credentials import Credentials
from rankd.wire.answer import ErrorBody, error_of
from rankd.wire.encoding import encode
from rankd.wire.subject import is_admin_request, is_node_request

STATUS_HEADER = "Nats-Service-Error-Code"
TEXT_HEADER = "Nats-Service-Error"
LONGEST_TEXT = 500


def not_authorized(url: str, presented: Credentials | None) -> Refused:
    """The refusal for when the broker does not let this connection in. ``presented``: its credentials, if any."""
    server = f"the NATS server at {without_secret(url)}"
    if presented is not None:
        message = f"{server} does not accept the credentials of '{presented.claims().name}': it belongs to another"
        message += " site, or they have expired or were revoked; get new ones"
        return Refused("not_authorized", message, "creds", status=401)
    who = user_in(url)
    message = f"{server} does not accept '{who}' with this password: give nats://USER:PASSWORD@HOST:PORT, best in"
    message += " $RANKD_NATS"
    if who is None:
        message = f"{server} wants to know who connects: give --creds FILE"
        message += " (`rankd auth creds` writes it), or nats://USER:PASSWORD@HOST:PORT in $RANKD_NATS"
    return Refused("not_authorized", message, status=401)


def not_permitted(user: str, subject: str) -> Refused:
    """The refusal for when the broker does not let ``user`` publish on ``subject``."""
    if is_node_request(subject):
        message = f"the broker does not let '{user}' speak for this node ({subject}): give the node's own credentials"
    elif is_admin_request(subject):
        message = f"for administrators only: the broker does not know '{user}' as an administrator"
    else:
        message = f"the broker does not let '{user}' ask as somebody else ({subject}): leave out --as and $RANKD_USER"
    return Refused("not_permitted", message, status=403)


async def respond_error(message: Msg, error: RankdError) -> None:
    """Answer a message with an error, in the form of NATS' micro services."""
    body = ErrorBody(code=error.code, message=error.message, field=error.field)
    text = " ".join(error.message.split())[:LONGEST_TEXT]  # a header ends at a line break
    headers = {STATUS_HEADER: str(error.status), TEXT_HEADER: text}
    await message._client.publish(message.reply, encode(body), headers=headers)  # noqa: SLF001 - as Msg.respond does


def raise_if_refused(reply: Msg) -> None:
    """Raise the error that a reply carries; return None if the reply is an answer.

    Raises:
        Refused, Unavailable: the other side's error, with its code, message, field and status.
        ValueError, RecursionError: the error can't be decoded.
    """
    status = (reply.headers or {}).get(STATUS_HEADER)
    if status is None:
        return
    body = msgspec.json.decode(reply.data, type=ErrorBody) if reply.data else ErrorBody(code="error", message="")
    raise error_of(status, body)
