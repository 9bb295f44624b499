"""The rules for the text of a script: what the nodes can execute, and how large it may be.

A message of the broker has at most 1 MiB by default. A script travels in such messages three times: in the submission
and in the answer to ``job.script`` as JSON text, and to its node as base64 beside the rest of the job. So
``admission.max_script_bytes`` has an upper bound, and the text as JSON has one as well.
"""

from __future__ import annotations

from rankd.core.errors import Refused

FIELD = "script"
MARK = "#!"
MOST_BYTES = 512 * 2**10
"""The largest value of ``admission.max_script_bytes``."""
MAX_JSON_BYTES = 960 * 2**10
"""A control character takes up to six bytes in JSON. With the rest of the answer, this fits into 1 MiB."""

_LONGER = {chr(code): 5 for code in range(0x20)} | dict.fromkeys('"\\\b\f\n\r\t', 1)
"""By how many bytes a character grows in JSON: ``\\u0001`` and ``\\n``."""


def check_script(script: str, most: int) -> None:
    """Check a script. ``most``: the bytes that it may have in UTF-8.

    Raises:
        Refused: ``bad_script``, ``script_too_large`` (413).
    """
    first, _, _ = script.partition("\n")
    if not script.startswith(MARK) or not first.removeprefix(MARK).strip():
        message = "the script does not begin with #! and an interpreter; write for example #!/bin/sh as its first line"
        raise Refused("bad_script", message, FIELD)
    if first.endswith("\r"):
        message = "the script has line ends of DOS (CR LF), so no interpreter is found; convert it with dos2unix"
        raise Refused("bad_script", message, FIELD)
    if "\0" in script:
        raise Refused("bad_script", "the script contains a NUL character, so it is not a text; submit a text", FIELD)
    try:
        size = len(script.encode())
    except UnicodeEncodeError:
        message = "the script contains half of a surrogate pair, which is not a character; send it as UTF-8"
        raise Refused("bad_script", message, FIELD) from None
    if size > most:
        message = (
            f"the script has {size} bytes, {most} are allowed (admission.max_script_bytes); "
            "put large parts into files that it reads"
        )
        raise Refused("script_too_large", message, FIELD, status=413)
    in_json = bytes_in_json(script)
    if in_json > MAX_JSON_BYTES:
        message = (
            f"the script has {in_json} bytes as JSON, {MAX_JSON_BYTES} are allowed; "
            "it has many control characters, so put them into a file that it reads"
        )
        raise Refused("script_too_large", message, FIELD, status=413)


def bytes_in_json(text: str) -> int:
    r"""The bytes of a text as a string of JSON.

    >>> bytes_in_json("a\tb")
    6
    """
    return len(text.encode()) + len('""') + sum(text.count(character) * by for character, by in _LONGER.items())
