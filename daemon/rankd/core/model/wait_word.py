"""The parts of a job's waiting time as people read them. Without imports: commands that only look use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WAITED: Mapping[str, str] = {
    "waited_dependency_s": "dependency",
    "waited_held_s": "held or begin",
    "waited_quota_s": "quota or limit",
    "waited_resources_s": "resources",
    "waited_reserved_s": "reserved for others",
    "waited_starting_s": "starting",
}
"""The columns of a job's record, and the causes in words."""
