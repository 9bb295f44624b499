"""The files of a configuration, and the differences between two versions of them. Imports nothing slow."""

from __future__ import annotations

import msgspec

FILES = ("rankd.toml", "queues.yaml", "accounts.yaml", "priorityclasses.yaml")


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key whose value has changed. ``old`` None: the key is new. ``new`` None: the key was removed."""

    file: str
    key: str = ""
    old: str | None = None
    new: str | None = None

    def __str__(self) -> str:
        """``priority.weights.age 1000 -> 2000``."""
        if not self.key:
            return f"{self.file}: other text, same content"
        if self.old is None:
            return f"{self.key} added" if not self.new else f"{self.key} added: {self.new}"
        if self.new is None:
            return f"{self.key} removed" if not self.old else f"{self.key} removed: {self.old}"
        return f"{self.key} {self.old} -> {self.new}"
