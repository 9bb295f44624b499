"""Usage: what jobs are charged, continuously, and how it fades with time.

A charge made at time t counts 2^(-(now - t) / half_life) at ``now``. Charges are integrated in closed form,
never added up step by step, so it makes no difference when, or how often, anyone looks. Slurm decays by
1 - 0.693/H per second and charges in steps of its period; this is the exact thing.

A clock that is stepped back has elapsed no time: nothing decays and nothing is charged until it has caught
up, and nothing decays twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from rankd.core.model.quantity import VCORE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankd.core.fairshare.layout import FloatArray, IntArray

MILLICORES = 1000


def billing_rate(resources: Mapping[str, int], nodes: int, billing: Mapping[str, float], usage_factor: float) -> float:
    """What a job costs per second: billing = sum of weight * amount, times its QoS's factor.

    Args:
        resources: internal amounts per node (vcore in thousandths of a core).
        nodes: how many nodes the job holds.
        billing: cost per unit and second; vcore is billed per core; what is not named costs nothing.
        usage_factor: of the job's QoS.
    """
    per_node = sum(weight * _units(resource, resources.get(resource, 0)) for resource, weight in billing.items())
    return per_node * nodes * usage_factor


def decay(usage: FloatArray, elapsed_s: FloatArray | float, half_life_s: float | None) -> FloatArray:
    """The usage after ``elapsed_s`` without charges; negative is 0. ``half_life_s`` None: it never decays."""
    with np.errstate(over="ignore", under="ignore"):  # faded to nothing
        faded: FloatArray = usage * np.exp2(-np.maximum(elapsed_s, 0.0) / _half_life(half_life_s))
    return faded


def charge(
    rate: FloatArray | float,
    start_at: FloatArray | float,
    end_at: FloatArray | float,
    now: FloatArray | float,
    half_life_s: float | None,
) -> FloatArray:
    """What a job at ``rate`` from ``start_at`` to ``end_at`` counts at ``now``; all arguments broadcast.

    r * H/ln 2 * ( 2^(-(now-b)/H) - 2^(-(now-a)/H) ), written as r * (b-a) * 2^(-(now-b)/H) * (1 - e^-x) / x
    with x = (b-a) ln 2 / H: no digits are lost when b - a is short against H, and H = None is x = 0.
    What lies after ``now`` is not charged yet; an interval that ends before it begins is none.
    """
    until = np.minimum(end_at, now)
    duration = np.maximum(np.subtract(until, start_at), 0.0)
    full = np.asarray(np.multiply(rate, duration) * _mean_weight(duration, half_life_s))
    return decay(full, np.subtract(now, until), half_life_s)


class Accumulators(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Usage of all associations by user index, each with the instant that it is stated for.

    Attributes:
        usage: float64 (n_users,), billing units times seconds.
        usage_at: float64 (n_users,), UTC seconds.
        half_life_s: None where nothing decays.
    """

    usage: FloatArray
    usage_at: FloatArray
    half_life_s: float | None

    def usage_now(self, now: float, rates: FloatArray | None = None) -> FloatArray:
        """Usage at ``now``, float64 (n_users,).

        Args:
            now: UTC seconds. Where it is before ``usage_at`` the usage is returned as it is.
            rates: float64 (n_users,), what the association's running jobs cost per second together, all of it
                since ``usage_at``; None where running jobs are charged apart.
        """
        faded = decay(self.usage, now - self.usage_at, self.half_life_s)
        return faded if rates is None else faded + charge(rates, self.usage_at, now, now, self.half_life_s)

    def charged(self, users: IntArray, rates: FloatArray, start_at: FloatArray, end_at: FloatArray) -> Accumulators:
        """With the whole of some ended jobs added.

        The associations charged are then stated for their last ``end_at``, or for ``usage_at`` if that is
        later, so a job that ended on a faster clock than ours loses nothing.

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
        """With usage from outside added, float64 (n,), each as stated for the instant ``at``."""
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
    """What a second of an interval counts at its end, on average: (1 - e^-x) / x, 1 for x = 0."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.asarray(duration_s) * math.log(2) / _half_life(half_life_s)
    lasts = x > 0
    return np.where(lasts, -np.expm1(-x) / np.where(lasts, x, 1.0), 1.0)
