"""Usage: jobs are charged continuously, and their usage decays with time.

A charge at time t counts 2^(-(now - t) / half_life) at ``now``. Charges are integrated in closed form, not added up in
steps. So the result does not depend on when, or how often, it is computed. Slurm decays by 1 - 0.693/H per second and
charges in steps of its period; this is the exact result.

If the clock is set back, no time has passed: there is no decay and no charge until the clock has caught up, and usage
does not decay twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.model.device import GPU, is_device_kind, model_of, price_of
from rankd.core.model.quantity import VCORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankd.core.fairshare.layout import FloatArray, IntArray

MILLICORES = 1000


def billing_rate(resources: Mapping[str, int], nodes: int, billing: Mapping[str, float], usage_factor: float) -> float:
    """The cost of a job in billing units per second: the sum of weight * amount, times the factor of its QoS.

    Args:
        resources: internal amounts per node (vcore in thousandths of a core).
        nodes: the number of nodes that the job holds.
        billing: cost per unit and second; vcore is billed per core. A type that is not in it costs nothing. Devices of
            a model cost what the model costs, or else what ``gpu`` costs.
        usage_factor: the usage factor of the job's QoS.
    """
    others = ((weight, resource) for resource, weight in billing.items() if not is_device_kind(resource))
    per_node = sum(weight * _units(resource, resources.get(resource, 0)) for weight, resource in others)
    return (per_node + _of_devices(resources, billing)) * nodes * usage_factor


def _of_devices(resources: Mapping[str, int], billing: Mapping[str, float]) -> float:
    """The cost of the devices on a node: of those whose model is known, and of the others."""
    named = {model: amount for kind, amount in resources.items() if (model := model_of(kind)) is not None}
    others = resources.get(GPU, 0) - sum(named.values())
    cost = sum(price_of(model, billing) * amount for model, amount in sorted(named.items()))
    return cost + billing.get(GPU, 0.0) * max(0, others)


def decay(usage: FloatArray, elapsed_s: FloatArray | float, half_life_s: float | None) -> FloatArray:
    """The usage after ``elapsed_s`` without charges. A negative time counts as 0. ``half_life_s`` None: no decay."""
    with np.errstate(over="ignore", under="ignore"):  # old usage decays to 0
        faded: FloatArray = usage * np.exp2(-np.maximum(elapsed_s, 0.0) / _half_life(half_life_s))
    return faded


def charge(
    rate: FloatArray | float,
    start_at: FloatArray | float,
    end_at: FloatArray | float,
    now: FloatArray | float,
    half_life_s: float | None,
) -> FloatArray:
    """The usage at ``now`` of a job with ``rate`` from ``start_at`` to ``end_at``. All arguments broadcast.

    r * H/ln 2 * ( 2^(-(now-b)/H) - 2^(-(now-a)/H) ), written as r * (b-a) * 2^(-(now-b)/H) * (1 - e^-x) / x
    with x = (b-a) ln 2 / H: no digits are lost when b - a is short against H, and H = None is x = 0.
    Time after ``now`` is not charged yet. An interval that ends before it begins counts as empty.
    """
    until = np.minimum(end_at, now)
    duration = np.maximum(np.subtract(until, start_at), 0.0)
    full = np.asarray(np.multiply(rate, duration) * _mean_weight(duration, half_life_s))
    return decay(full, np.subtract(now, until), half_life_s)


class Accumulators(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The usage of all associations by user index, each at its own instant.

    Attributes:
        usage: float64 (n_users,), billing units times seconds.
        usage_at: float64 (n_users,), UTC seconds.
        half_life_s: seconds; None means no decay.
    """

    usage: FloatArray
    usage_at: FloatArray
    half_life_s: float | None

    def usage_now(self, now: float, rates: FloatArray | None = None) -> FloatArray:
        """Usage at ``now``, float64 (n_users,).

        Args:
            now: UTC seconds. If it is before ``usage_at``, the usage does not change.
            rates: float64 (n_users,), the total cost per second of the association's running jobs, charged since
                ``usage_at``. None if running jobs are charged separately.
        """
        faded = decay(self.usage, now - self.usage_at, self.half_life_s)
        return faded if rates is None else faded + charge(rates, self.usage_at, now, now, self.half_life_s)

    def charged(self, users: IntArray, rates: FloatArray, start_at: FloatArray, end_at: FloatArray) -> Accumulators:
        """The accumulators with the whole usage of some ended jobs added.

        The new ``usage_at`` of each charged association is its last ``end_at``, or the old ``usage_at`` if that is
        later. So no usage is lost if a job has ended on a faster clock than this one.

        Args:
            users: int64 (n_jobs,), user indices, repeats allowed.
            rates: float64 (n_jobs,), cost per second.
            start_at: float64 (n_jobs,), UTC seconds.
            end_at: float64 (n_jobs,), UTC seconds.
        """
        usage_at = self.usage_at.copy()
        np.maximum.at(usage_at, users, end_at)
        usage = decay(self.usage, usage_at - self.usage_at, self.half_life_s)
        np.add.at(usage, users, charge(rates, start_at, end_at, usage_at[users], self.half_life_s))
        return msgspec.structs.replace(self, usage=usage, usage_at=usage_at)

    def added(self, users: IntArray, usage: FloatArray, at: float) -> Accumulators:
        """The accumulators with external usage added, float64 (n,). ``at``: the instant of the external usage."""
        usage_at = self.usage_at.copy()
        np.maximum.at(usage_at, users, at)
        total = decay(self.usage, usage_at - self.usage_at, self.half_life_s)
        np.add.at(total, users, decay(usage, usage_at[users] - at, self.half_life_s))
        return msgspec.structs.replace(self, usage=total, usage_at=usage_at)


def _units(resource: str, amount: int) -> float:
    return amount / MILLICORES if resource == VCORE else float(amount)


def _half_life(half_life_s: float | None) -> float:
    return math.inf if half_life_s is None else half_life_s


def _mean_weight(duration_s: FloatArray | float, half_life_s: float | None) -> FloatArray:
    """The average weight of a second of an interval at its end: (1 - e^-x) / x, or 1 for x = 0."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.asarray(duration_s) * math.log(2) / _half_life(half_life_s)
    lasts = x > 0
    return np.where(lasts, -np.expm1(-x) / np.where(lasts, x, 1.0), 1.0)
