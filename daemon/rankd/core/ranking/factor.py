"""The factor protocol: what a plugin of the entry-point group ``rankd.factors`` implements.

A factor computes values from the context of a pass, as arrays. It gives one value per group (association, QoS, queue)
if all jobs of the group share it, else one value per job; its attribute ``per`` tells which. The engine expands group
values to jobs, checks range and shape, and multiplies by the weight. Group values are stored once per group.

A per-job factor may also give its formula in SQL over the same columns. Then the view ``job_priority`` computes the
values, and they are not stored as rows. Both must give the same float64, bit for bit: use the same operations in the
same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Protocol, cast, runtime_checkable

import msgspec
import numpy as np

from rankd.core.errors import FactorError
from rankd.core.model.quantity import Resources
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray, JobColumns
from rankd.core.ranking.name import Names


class Per(StrEnum):
    """What one value of a factor belongs to."""

    JOB = "job"
    ASSOCIATION = "association"
    QOS = "qos"
    QUEUE = "queue"


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the groups that jobs refer to by index. All arrays are float64, with NaN for values not set.

    ``fairshares`` (n_associations,): in [0, 1]. ``qos_priorities``, ``qos_factors`` (n_qos,). ``queue_factors``
    (n_queues,): the configured ``priority.factor``. ``partition_nodes``, ``partition_cores`` (n_partitions,): totals of
    nodes that are up or draining. ``partition_totals``: the same by resource type. ``shapes``: by shape, the total
    amounts that a job asks for. ``association_priorities`` (n_associations,): as configured.
    ``largest_association_priority``: of all entries of the tree. ``names``: the names of the groups.
    """

    fairshares: FloatArray
    qos_priorities: FloatArray
    qos_factors: FloatArray
    queue_factors: FloatArray
    partition_nodes: FloatArray
    partition_cores: FloatArray
    partition_totals: Sequence[Resources] = ()
    shapes: Sequence[Resources] = ()
    association_priorities: FloatArray = msgspec.field(default_factory=lambda: np.empty(0))
    largest_association_priority: float = 0.0
    names: Names = Names()

    def size(self, per: Per, n_jobs: int) -> int:
        """The number of values that a factor of this kind must give."""
        match per:
            case Per.JOB:
                return n_jobs
            case Per.ASSOCIATION:
                return len(self.fairshares)
            case Per.QOS:
                return len(self.qos_priorities)
            case Per.QUEUE:
                return len(self.queue_factors)


class FactorContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a factor may look at: one instant, the jobs, the groups, the settings."""

    now: float
    jobs: JobColumns
    groups: Groups


@runtime_checkable
class Factor(Protocol):
    """One factor. It is constructed with the priority settings: ``Plugin(settings)``.

    A class attribute ``is_given = True`` means that the factor has no values of its own. Adapters give all values, per
    job or per association.
    """

    name: str
    per: Per
    lowest: float
    highest: float

    def __init__(self, settings: PrioritySettings) -> None:
        """Store the needed settings. Raise ConfigurationError if the factor can't work with them."""

    def values(self, context: FactorContext) -> FloatArray:
        """The values, float64, of shape (n_jobs,) or (n_groups,) as ``per`` says. Pure.

        A delta generation asks only for the values of new jobs. So a job's value must not depend on which other jobs
        wait.
        """

    def sql(self) -> str | None:
        """For ``Per.JOB``: the formula, with names of :data:`SQL_NAMES` and the factor's own parameters; else None."""

    def parameters(self) -> Mapping[str, float]:
        """The numbers for the names in :meth:`sql`. They are stored with each generation, so old ones stay readable."""


class Stored:
    """The two methods of a factor without a formula in SQL: its values are stored, per job or per group."""

    def sql(self) -> str | None:
        """Returns None: there is no formula."""
        return None

    def parameters(self) -> Mapping[str, float]:
        """Returns an empty mapping: without a formula there are no parameters."""
        return {}


@runtime_checkable
class Elsewhere(Protocol):
    """A factor whose values are computed in another process, at the same time as those of other factors."""

    def begin(self, context: FactorContext) -> None:
        """Begin to compute the values for this context. :meth:`Factor.values` is called later in the same full pass."""


def begin(factors: Sequence[Factor], context: FactorContext) -> None:
    """Begin a full pass for all factors, before the values of any of them are needed."""
    for factor in factors:
        if _is_elsewhere(type(factor)):
            cast("Elsewhere", factor).begin(context)


@cache
def _is_elsewhere(kind: type) -> bool:
    return issubclass(kind, Elsewhere)  # a protocol is slow to look at, and there may be a pass per millisecond


SQL_NAMES = frozenset(
    {
        "ranked_at",
        "submitted_at",
        "eligible_at",
        "urgency",
        "nodes",
        "cores",
        "time_limit_s",
        "partition_nodes",
        "partition_cores",
    }
)
"""Names in braces that a factor's SQL may use, in addition to its own parameters. ``eligible_at`` may be NULL."""


def evaluate(factor: Factor, context: FactorContext) -> FloatArray:
    """The factor's values, checked.

    Raises:
        FactorError: the plugin raised, or gave another shape, NaN, or values outside its range.
    """
    try:
        values = np.asarray(factor.values(context), dtype=np.float64)
    except FactorError:
        raise
    except Exception as error:  # a plugin may raise any exception; the ranking must go on
        raise FactorError(factor.name, f"raised {type(error).__name__}: {error}") from error
    expected = context.groups.size(factor.per, len(context.jobs))
    if values.shape != (expected,):
        raise FactorError(factor.name, f"gave values of shape {values.shape}; expected ({expected},)")
    # with NaN among them, both are NaN and not inside
    if expected and not (np.minimum.reduce(values) >= factor.lowest and np.maximum.reduce(values) <= factor.highest):
        worst = values[~((values >= factor.lowest) & (values <= factor.highest))][0]
        raise FactorError(factor.name, f"gave {worst}; allowed is [{factor.lowest}, {factor.highest}]")
    return values
