"""Messages of the verb ``schema.show``."""

from __future__ import annotations

from typing import Any

import msgspec


class SchemaRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for the JSON Schemas of one verb, or of all."""

    verb: str | None = None


class VerbSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The schemas of a verb's request and of its reply. They refer to the document's ``$defs``."""

    request: dict[str, Any]
    reply: dict[str, Any]


class SchemaDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """JSON Schemas (draft 2020-12) of requests and replies, by verb. ``error``: the reply of every refused request.

    ``nodes``: the requests of agents, by the names of their endpoints.
    """

    verbs: dict[str, VerbSchema]
    error: dict[str, Any]
    defs: dict[str, Any] = msgspec.field(name="$defs")
    dialect: str = msgspec.field(name="$schema")
    nodes: dict[str, VerbSchema] = {}
