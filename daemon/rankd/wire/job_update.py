"""The request of ``job.update``: a selection of jobs, and the fields to change."""

from __future__ import annotations

import msgspec

from rankd.core.model.job import CHANGEABLE_FIELDS, Dependency
from rankd.wire.job_selection import JobSelection


class JobUpdate(JobSelection, frozen=True, kw_only=True):
    """Fields of pending jobs to change; a field that is left out stays as it is. Of running jobs only the time limit.

    ``resources`` changes the kinds that it names; null removes a kind. ``priority_class`` null is the default class;
    ``priority`` and ``preemption_policy`` must be those of the class. ``fixed_priority`` null removes a fixed one.
    ``array_limit``: how many tasks of an array may run at a time; null: any number.
    ``add_time_limit_s``: in place of ``time_limit_s``, by how much the limit grows, or shrinks if it is negative.
    """

    urgency: int | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET
    partition: str | msgspec.UnsetType = msgspec.UNSET
    qos: str | msgspec.UnsetType = msgspec.UNSET
    account: str | msgspec.UnsetType = msgspec.UNSET
    application: str | msgspec.UnsetType | None = msgspec.UNSET
    priority_class: str | msgspec.UnsetType | None = msgspec.UNSET
    priority: int | msgspec.UnsetType = msgspec.UNSET
    preemption_policy: str | msgspec.UnsetType = msgspec.UNSET
    time_limit_s: float | msgspec.UnsetType | None = msgspec.UNSET
    nodes: int | msgspec.UnsetType = msgspec.UNSET
    min_nodes: int | msgspec.UnsetType | None = msgspec.UNSET
    resources: dict[str, int | float | str | None] | msgspec.UnsetType = msgspec.UNSET
    constraints: str | msgspec.UnsetType | None = msgspec.UNSET
    exclusive: bool | msgspec.UnsetType = msgspec.UNSET
    requeue: bool | msgspec.UnsetType = msgspec.UNSET
    begin_at: float | msgspec.UnsetType | None = msgspec.UNSET
    depends_on: list[Dependency] | msgspec.UnsetType = msgspec.UNSET
    cancel_if_unmet: bool | msgspec.UnsetType | None = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    comment: str | msgspec.UnsetType | None = msgspec.UNSET
    fixed_priority: int | msgspec.UnsetType | None = msgspec.UNSET
    array_limit: int | msgspec.UnsetType | None = msgspec.UNSET
    add_time_limit_s: float | msgspec.UnsetType = msgspec.UNSET

    def given(self) -> dict[str, object]:
        """The fields of a job's request that change."""
        fields = {name: getattr(self, name) for name in CHANGEABLE_FIELDS}
        return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
