"""What a service and a worker say to each other: MessagePack in the headers of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.model.quantity import Resources
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import Groups, Per
from rankd.core.ranking.name import Names

_LARGEST = 2**63 - 1


class Start(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the worker is for. ``entry``: ``module:Class``; ``argument``: what follows the dot in ``name``.

    ``path``: where modules are looked for. ``time_limit_s``: for the import and for building the factor.
    """

    name: str
    entry: str
    argument: str
    settings: PrioritySettings
    path: Sequence[str]
    time_limit_s: float


class Hello(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the factor is; or the ``error`` for which there is none."""

    error: str = ""
    per: Per = Per.JOB
    lowest: float = 0.0
    highest: float = 0.0
    is_given: bool = False
    sql: str | None = None
    parameters: Mapping[str, float] = {}


class GroupArrays(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """:class:`Groups` without names and shapes; arrays as their bytes."""

    arrays: Mapping[str, bytes]
    partition_totals: Sequence[Resources]
    largest_association_priority: float

    @classmethod
    def of(cls, groups: Groups) -> GroupArrays:
        """What is sent of groups."""
        fields = {name: getattr(groups, name) for name in Groups.__struct_fields__}
        arrays = {
            name: value.astype(np.float64, copy=False).tobytes()
            for name, value in fields.items()
            if isinstance(value, np.ndarray)
        }
        return cls(
            arrays=arrays,
            partition_totals=sendable(groups.partition_totals),
            largest_association_priority=groups.largest_association_priority,
        )

    def groups(self, names: Names, shapes: Sequence[Resources]) -> Groups:
        """What it was made of; arrays are read-only."""
        return Groups(
            **{name: np.frombuffer(content, dtype=np.float64) for name, content in self.arrays.items()},
            partition_totals=self.partition_totals,
            shapes=shapes,
            largest_association_priority=self.largest_association_priority,
            names=names,
        )


class Ask(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Values for ``n_jobs`` jobs, whose columns are behind the header or in a block.

    ``groups``, ``names`` and ``shapes`` are None where they are those of the last time; of ``shapes`` the first
    ``shapes_kept`` are. ``time_limit_s``: then the worker is ended by its own alarm.
    """

    number: int
    now: float
    n_jobs: int
    time_limit_s: float
    groups: GroupArrays | None = None
    names: Names | None = None
    shapes: Sequence[Resources] = ()
    shapes_kept: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """To ask ``number``: values behind the header, float64; or an ``error``. ``took_s``: of computing them."""

    number: int
    took_s: float
    error: str = ""


def sendable(amounts: Sequence[Resources]) -> Sequence[Resources]:
    """With amounts beyond 63 bits, which no message holds, as the largest that one does."""
    if all(amount <= _LARGEST for own in amounts for amount in own.values()):
        return amounts
    return [{kind: min(amount, _LARGEST) for kind, amount in own.items()} for own in amounts]
