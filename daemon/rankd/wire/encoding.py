"""Encoding to JSON, and the errors of decoding. Commands import this alone: :mod:`.codec` knows every message."""

from __future__ import annotations

import msgspec

UNREADABLE = (ValueError, RecursionError)
"""The errors of decoding bytes that are not the expected message: wrong types, invalid UTF-8, too deep nesting."""

encode = msgspec.json.Encoder(enc_hook=None).encode
