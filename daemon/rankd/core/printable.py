r"""Make texts of users and nodes safe to print: escape all characters that move the cursor, hide or reorder text.

The escapes are those of JSON (``\n``, ``\u001b``, surrogate pairs), so that JSON stays JSON. Backslashes do not change.
"""

from __future__ import annotations

import re
import unicodedata

_IGNORABLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]"
"""Letters and marks that are invisible or have no width, although ``str.isprintable`` is true for them.

It is compiled at its first use, since every command imports this module.
"""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, keep: str = "") -> str:
    r"""The text with visible escapes for all invisible characters, except those in ``keep``.

    These are escaped: control characters (C0, DEL, C1), line separators, zero-width and bidirectional format
    characters, invisible letters, lone surrogates (bytes that are not UTF-8), private and unassigned characters.

    >>> printable("a\nb\x1b[31m\u202e")
    'a\\nb\\u001b[31m\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if character in keep or _shows(character) else _escape(character) for character in text)


def _shows(character: str) -> bool:
    if character.isprintable():
        return re.match(_IGNORABLE, character) is None
    return unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
