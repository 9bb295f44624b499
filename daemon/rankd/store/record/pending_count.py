"""How many jobs and tasks are pending: of all users, of a user, in an account."""

from __future__ import annotations

from sqlalchemy import bindparam, func, select

from rankd.core.model.job import State
from rankd.store.engine.connection import Connection
from rankd.store.schema.job_table import IS_ACTIVE
from rankd.store.schema.table import arrays, associations, jobs

_OF = jobs.c
_IS_PENDING = _OF.state == State.PENDING.value
_N_PENDING = select(func.count()).select_from(jobs).where(IS_ACTIVE, _IS_PENDING)
_N_PENDING_OF_USER = select(func.count()).select_from(jobs).where(_OF.user == bindparam("user"), _IS_PENDING)
_N_TASKS = (
    select(func.coalesce(func.sum(arrays.c.n_pending - 1), 0))
    .join_from(jobs, arrays, arrays.c.job_id == _OF.id)
    .where(_IS_PENDING)
)
_N_TASKS_OF_USER = _N_TASKS.where(_OF.user == bindparam("user"))
_N_TASKS_OF_ALL = _N_TASKS.where(_OF.array.is_not(None))
_IN_ACCOUNT = select(associations.c.id).where(associations.c.account == bindparam("account"))
_N_PENDING_OF_ACCOUNT = _N_PENDING.where(_OF.association_id.in_(_IN_ACCOUNT))
"""Looks at every pending job, 1 to 2 s for a million: the intake counts only if all of them would be too many."""
_N_TASKS_OF_ACCOUNT = _N_TASKS_OF_ALL.where(_OF.association_id.in_(_IN_ACCOUNT))


def count_pending(connection: Connection, user: str | None = None) -> int:
    """The number of pending jobs of a user, or of all users."""
    if user is None:
        return int(connection.execute(_N_PENDING).scalar_one())
    return int(connection.execute(_N_PENDING_OF_USER, {"user": user}).scalar_one())


def count_pending_tasks(connection: Connection, user: str | None = None) -> int:
    """The number of pending tasks of a user, or of all users; a job that is no array is one task."""
    query, values = (_N_TASKS_OF_ALL, {}) if user is None else (_N_TASKS_OF_USER, {"user": user})
    return count_pending(connection, user) + int(connection.execute(query, values).scalar_one())


def count_pending_tasks_of_account(connection: Connection, account: str) -> int:
    """The number of pending tasks in an account, without those of accounts below it."""
    in_arrays = connection.execute(_N_TASKS_OF_ACCOUNT, {"account": account}).scalar_one()
    return count_pending_of_account(connection, account) + int(in_arrays)


def count_pending_of_account(connection: Connection, account: str) -> int:
    """The number of pending jobs in an account, without those of accounts below it."""
    return int(connection.execute(_N_PENDING_OF_ACCOUNT, {"account": account}).scalar_one())
