"""The messages between a service and a worker: MessagePack in the headers of frames."""

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
    """What the worker has to load. ``entry``: ``module:Class``; ``argument``: the part after the dot in ``name``.

    ``path``: where modules are searched. ``time_limit_s``: for importing the module and building the factor.
    """

    name: str
    entry: str
    argument: str
    settings: PrioritySettings
    path: Sequence[str]
    time_limit_s: float


class Hello(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The factor's properties, or the ``error`` for which it can't be used."""

    error: str = ""
    per: Per = Per.JOB
    lowest: float = 0.0
    highest: float = 0.0
    is_given: bool = False
    sql: str | None = None
    parameters: Mapping[str, float] = {}


class GroupArrays(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """:class:`Groups` without names and shapes; arrays are sent as bytes."""

    arrays: Mapping[str, bytes]
    partition_totals: Sequence[Resources]
    largest_association_priority: float

    @classmethod
    def of(cls, groups: Groups) -> GroupArrays:
        """The part of groups that is sent."""
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
        """The groups from which it was made; arrays are read-only."""
        return Groups(
            **{name: np.frombuffer(content, dtype=np.float64) for name, content in self.arrays.items()},
            partition_totals=self.partition_totals,
            shapes=shapes,
            largest_association_priority=self.largest_association_priority,
            names=names,
        )


class Ask(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Asks for the values of ``n_jobs`` jobs. Their columns are in the payload or in a block.

    ``groups`` and ``names`` are None if they have not changed. ``shapes`` are the new ones; the first ``shapes_kept``
    of the last time are kept. After ``time_limit_s`` an alarm ends the worker.
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
    """Answers ask ``number``, with float64 values in the payload or an ``error``. ``took_s``: time to compute them."""

    number: int
    took_s: float
    error: str = ""


def sendable(amounts: Sequence[Resources]) -> Sequence[Resources]:
    """Amounts that a message can hold: those beyond 63 bits are replaced by the largest possible one."""
    if all(amount <= _LARGEST for own in amounts for amount in own.values()):
        return amounts
    return [{kind: min(amount, _LARGEST) for kind, amount in own.items()} for own in amounts]
