"""Values of options of the form ``NAME=VALUE``."""

from __future__ import annotations

import argparse


def key_value(text: str) -> tuple[str, str]:
    """``K=V`` as a pair."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
    return key, value
