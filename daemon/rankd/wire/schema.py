"""JSON Schemas of all requests and replies, generated from their structs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec

from rankd.core.errors import Refused
from rankd.core.near_name import cut
from rankd.wire.answer import ErrorBody
from rankd.wire.schema_record import SchemaDocument, VerbSchema
from rankd.wire.verb import NODE_VERBS, VERBS, Form

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIGEST_LENGTH = 16
_REFERENCE = "#/$defs/{name}"
_NAMED = re.compile(r'"\$ref":"#/\$defs/([^"]+)"')


@cache
def document() -> SchemaDocument:
    """The schemas of every verb, of the requests of nodes, and of errors."""
    forms = {**VERBS, **NODE_VERBS}
    kinds = list(dict.fromkeys(kind for form in forms.values() for kind in (*form.requests, *form.replies)))
    schemas, defs = msgspec.json.schema_components([*kinds, ErrorBody], ref_template=_REFERENCE)
    by_kind = dict(zip([*kinds, ErrorBody], schemas, strict=True))
    return SchemaDocument(
        verbs={verb: _schema(form, by_kind) for verb, form in VERBS.items()},
        nodes={name: _schema(form, by_kind) for name, form in NODE_VERBS.items()},
        error=by_kind[ErrorBody],
        defs=dict(sorted(defs.items())),
        dialect=DIALECT,
    )


def of_verb(verb: str) -> SchemaDocument:
    """The schemas of one verb, and what they refer to.

    Raises:
        Refused: ``unknown_verb``.
    """
    whole = document()
    if verb not in whole.verbs:
        raise Refused("unknown_verb", f"there is no verb '{cut(verb)}'; ask without one for all", "verb", status=404)
    shown = whole.verbs[verb]
    wanted = _reachable([shown.request, shown.reply, whole.error], whole.defs)
    return msgspec.structs.replace(
        whole, verbs={verb: shown}, nodes={}, defs={name: whole.defs[name] for name in wanted}
    )


@cache
def digest(verb: str) -> str:
    """A text that is another one when the schemas of the verb are other ones."""
    return sha256(msgspec.json.encode(of_verb(verb), order="sorted")).hexdigest()[:DIGEST_LENGTH]


def _schema(form: Form, by_kind: Mapping[Any, Mapping[str, Any]]) -> VerbSchema:
    return VerbSchema(request=_any(form.requests, by_kind), reply=_any(form.replies, by_kind))


def _any(kinds: Iterable[Any], by_kind: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    found = [dict(by_kind[kind]) for kind in kinds]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _reachable(schemas: Iterable[object], defs: Mapping[str, Any]) -> list[str]:
    """The names of the definitions that these schemas refer to, directly or not."""
    found, left = set[str](), [*schemas]
    while left:
        for name in _NAMED.findall(msgspec.json.encode(left.pop()).decode()):
            if name not in found:
                found.add(name)
                left.append(defs[name])
    return sorted(found)
