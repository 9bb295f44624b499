"""Factors with values, or some values, that come from outside.

A value belongs to a job; to a user in an account; to a user; or to an account. In this order, the first one that is
given for a job counts. A job without a given value keeps the factor's own value. Values are stored once per
association, if no job has a value of its own and the factor itself has no values per job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np

from rankd.core.adapter.input import FactorRow
from rankd.core.fairshare.tree import AccountTree
from rankd.core.ranking.columns import FloatArray, IntArray, JobColumns
from rankd.core.ranking.factor import Factor, FactorContext, Per, Stored, begin
from rankd.core.ranking.priority import FactorValues


class ExternalValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values given for one factor.

    ``job_ids`` int64, ascending, and ``job_values`` float64, of the same shape. The other values are by name.
    """

    job_ids: IntArray
    job_values: FloatArray
    associations: Mapping[tuple[str, str], float]
    users: Mapping[str, float]
    accounts: Mapping[str, float]

    @classmethod
    def of(cls, rows: Iterable[FactorRow]) -> ExternalValues:
        """The values of these rows. Of two rows for the same job or name, the later one counts."""
        jobs: dict[int, float] = {}
        associations: dict[tuple[str, str], float] = {}
        users: dict[str, float] = {}
        accounts: dict[str, float] = {}
        for row in rows:
            if row.job is not None:
                jobs[row.job] = row.value
            elif row.account is not None and row.user is not None:
                associations[row.account, row.user] = row.value
            elif row.user is not None:
                users[row.user] = row.value
            elif row.account is not None:
                accounts[row.account] = row.value
        ids = sorted(jobs)
        return cls(
            job_ids=np.array(ids, dtype=np.int64),
            job_values=np.array([jobs[id_] for id_ in ids], dtype=np.float64),
            associations=associations,
            users=users,
            accounts=accounts,
        )

    def by_association(self, tree: AccountTree, association_ids: IntArray) -> FloatArray:
        """Values by association id, float64; NaN if none is given. ``association_ids`` is by the tree's user index."""
        values = np.full(int(association_ids.max(initial=-1)) + 1, np.nan)
        if not (self.associations or self.users or self.accounts):
            return values
        parents = tree.parents[tree.n_accounts :].tolist()
        for user, parent, id_ in zip(tree.users, parents, association_ids.tolist(), strict=True):
            account = tree.accounts[parent]
            value = self.associations.get((account, user))
            value = self.users.get(user) if value is None else value
            value = self.accounts.get(account) if value is None else value
            if value is not None:
                values[id_] = value
        return values


class ExternalFactor(Stored):
    """A factor whose own values are replaced by given ones."""

    def __init__(self, inner: Factor, given: ExternalValues, by_association: FloatArray) -> None:
        self.name, self.lowest, self.highest = inner.name, inner.lowest, inner.highest
        self._inner = inner
        self._given = given
        self._by_association = by_association
        own = Per.ASSOCIATION if getattr(inner, "is_given", False) else inner.per
        self.per = own if own is Per.ASSOCIATION and not len(given.job_ids) else Per.JOB

    def begin(self, context: FactorContext) -> None:
        """Begin the factor's own computation, if it runs in another process."""
        begin([self._inner], context)

    def values(self, context: FactorContext) -> FloatArray:
        """The values, per association or per job according to :attr:`per`."""
        if self.per is Per.ASSOCIATION:
            return self._of_associations(context)
        return self._of_jobs(context)

    def _of_associations(self, context: FactorContext) -> FloatArray:
        size = context.groups.size(Per.ASSOCIATION, 0)
        own = self._inner.values(context) if self._inner.per is Per.ASSOCIATION else np.zeros(size)
        given = np.full(size, np.nan)
        known = min(size, len(self._by_association))
        given[:known] = self._by_association[:known]
        return np.where(np.isnan(given), own, given)

    def _of_jobs(self, context: FactorContext) -> FloatArray:
        jobs = context.jobs
        values = self._own_of_jobs(context)
        if len(self._by_association):
            known = (jobs.associations >= 0) & (jobs.associations < len(self._by_association))
            given = np.where(known, self._by_association[np.where(known, jobs.associations, 0)], np.nan)
            values = np.where(np.isnan(given), values, given)
        if len(self._given.job_ids) and len(jobs):
            places = np.minimum(np.searchsorted(self._given.job_ids, jobs.ids), len(self._given.job_ids) - 1)
            values = np.where(self._given.job_ids[places] == jobs.ids, self._given.job_values[places], values)
        return values

    def _own_of_jobs(self, context: FactorContext) -> FloatArray:
        values = np.asarray(self._inner.values(context), dtype=np.float64)
        keys: IntArray = np.empty(0, dtype=np.int64)
        row = FactorValues(name=self.name, weight=1.0, per=self._inner.per, values=values, keys=keys)
        return row.of_jobs(_inside(context.jobs, self._inner.per, len(values)))


def _inside(jobs: JobColumns, per: Per, size: int) -> JobColumns:
    """The jobs. A job of an association that is newer than the values gets no association."""
    if per is not Per.ASSOCIATION:
        return jobs
    return msgspec.structs.replace(jobs, associations=np.where(jobs.associations < size, jobs.associations, -1))


def with_external_values(
    factors: Sequence[Factor], given: Mapping[str, ExternalValues], tree: AccountTree, association_ids: IntArray
) -> list[Factor]:
    """The factors, with the given values applied to those that have some."""
    used = []
    for factor in factors:
        values = given.get(factor.name)
        if values is not None:
            made = ExternalFactor(factor, values, values.by_association(tree, association_ids))
            factor = cast("Factor", made)  # noqa: PLW2901 - a factor, except for its constructor
        used.append(factor)
    return used
