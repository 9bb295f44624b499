"""Inputs that coverage guides, for single readers: an experiment of developers, beside ``make fuzz``.

It needs atheris, which rankd's environments don't have, and skips without it:

    python3 -m venv /tmp/guided && /tmp/guided/bin/pip install atheris
    PYTHONPATH=SITE_PACKAGES_OF_RANKD:daemon:plugins /tmp/guided/bin/python tests/fuzz/guided.py accounts \
        -max_total_time=300 DIRECTORY_OF_INPUTS

The reader is one of ``accounts``, ``submissions`` and ``settings``. What follows it goes to libFuzzer. An input that
raises anything but the declared errors of the reader ends the run, and is written to a file.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> int:
    """Run one reader until it fails or its time is over."""
    try:
        import atheris
    except ImportError:
        print("skipped: atheris is not installed")
        return 0
    with atheris.instrument_imports(include=["rankd", "yaml", "tomllib"]):
        from fuzz import target

    readers = {
        "accounts": (target.read_accounts, target.OF_FILES, True),
        "submissions": (lambda given: target.read_submitted((given, None, False)), target.OF_REQUESTS, False),
        "settings": (target.read_toml, target.OF_FILES, True),
    }
    read, may_raise, is_text = readers[sys.argv.pop(1)]

    def one(given: bytes) -> None:
        try:
            read(given.decode(errors="replace") if is_text else given)
        except may_raise:
            return

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
