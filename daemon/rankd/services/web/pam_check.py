"""Checks one password by PAM: a process of its own, since modules of PAM may block, crash, or keep what they get.

Standard input: a :class:`Question` as JSON. Standard output: the user's name as the user database has it, if the
password is right and the account may be used; else nothing. The exit status is 0 in both cases. With status 3, nothing
could be checked, and standard error says why.
"""

from __future__ import annotations

import ctypes
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

PLACES = (Path("/etc/pam.d"), Path("/usr/lib/pam.d"))
UNCHECKED = 3
LARGEST_QUESTION = 8 * 2**10
_FAIL_DELAY = 10
"""The item of PAM for the delay after a failure. The page waits instead, so that this process can end at once."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A name and a password, for a service of PAM. ``address``: where they came from, for logs and rules of PAM."""

    service: str
    user: str
    password: str
    address: str


class Unchecked(Exception):
    """Nothing could be checked."""


def checked(question: Question, places: Sequence[Path] = PLACES) -> str | None:
    """The name of the user, if the password is right and the account may be used; else None. Root can't sign in.

    Raises:
        Unchecked: the service is not configured, or PAM is not there.
    """
    if not any((place / question.service).is_file() for place in places):  # PAM would use the service ``other``
        raise Unchecked(f"PAM has no service '{question.service}': {places[0] / question.service} is missing")
    name = _authenticated(question)
    if name is None:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        return None
    return found.pw_name if found.pw_uid != 0 else None


def _authenticated(question: Question) -> str | None:
    """The user name that PAM reports after its checks; None if a check failed."""
    try:
        import pamela  # noqa: PLC0415 - it loads the system's library at once
    except ImportError:
        raise Unchecked("the library for PAM is not installed: pip install 'rankd[pam]'") from None
    except (OSError, AttributeError) as error:
        raise Unchecked(f"this system's library of PAM can't be used: {error}") from error
    conversation = pamela.new_simple_password_conv((question.password,), "utf-8")
    handle = pamela.pam_start(question.service, question.user, conv_func=conversation, encoding="utf-8")
    pamela.PAM_SET_ITEM(handle, _FAIL_DELAY, ctypes.cast(_no_delay, ctypes.c_char_p))
    status = 0
    try:
        handle.set_item(pamela.PAM_RHOST, question.address)
        status = pamela.PAM_AUTHENTICATE(handle, 0) or pamela.PAM_ACCT_MGMT(handle, 0)
        return handle.get_item(pamela.PAM_USER) if status == pamela.PAM_SUCCESS else None
    except pamela.PAMError:
        return None
    finally:
        pamela.PAM_END(handle, status)


_no_delay = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)(lambda *_: None)
"""What PAM calls to wait after a failure. It has to live as long as PAM may call it."""


def main() -> int:
    """Answer the question on standard input."""
    try:
        name = checked(msgspec.json.decode(sys.stdin.buffer.read(LARGEST_QUESTION), type=Question))
    except Unchecked as problem:
        sys.stderr.write(f"{problem}\n")
        return UNCHECKED
    sys.stdout.write(name or "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
