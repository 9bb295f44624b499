"""The live state as columns, for one question: what would other priorities change?

No job becomes an object. So a million waiting jobs are read and ranked twice in some seconds, and need as much memory
as in the prioritizer. Jobs are as they are now, at the instant of the newest full generation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec
import numpy as np

from rankd.config.configuration import Configuration
from rankd.config.plugin import is_own, load_factor
from rankd.core.errors import FactorError
from rankd.core.evaluate.mover import Owners
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.external_value import ExternalValues, with_external_values
from rankd.core.ranking.factor import Factor, FactorContext, Stored
from rankd.core.ranking.priority import FactorValues
from rankd.core.ranking.ranking import Ranking, RankingState, rank
from rankd.mirror.job_table import merged
from rankd.services.prioritizer.factor_set import external_values
from rankd.services.prioritizer.ranking_source import RankingSource
from rankd.store.engine.connection import Connection
from rankd.store.feed.factor_value import stored_values
from rankd.store.feed.job import load_columns
from rankd.store.feed.pending import active_by_association
from rankd.store.record.adapter import in_force
from rankd.store.record.catalog import Catalog, read_catalog
from rankd.store.record.user_group import with_recorded_groups


class CannotRank(Exception):
    """The columns lack something that a document has: the caller takes the slower way."""


class Live(NamedTuple):
    """All pending jobs, and what ranks them.

    ``stored``: values of factors that only a running prioritizer can compute, as the newest generation has them.
    ``unknown``: such factors without stored values. ``at``: UTC seconds.
    """

    state: RankingState
    source: RankingSource
    configuration: Configuration
    catalog: Catalog
    owners: Owners
    external: Mapping[str, ExternalValues]
    stored: Mapping[str, FactorValues]
    unknown: frozenset[str]
    at: float

    @property
    def settings(self) -> PrioritySettings:
        """The settings in force."""
        return self.configuration.settings.priority

    def ranking(self, state: RankingState, settings: PrioritySettings) -> Ranking:
        """The order of the jobs of ``state``.

        Raises:
            CannotRank: a factor's values are not known.
        """
        factors = [self._factor(name, settings) for name in settings.weights]
        used = with_external_values(factors, self.external, state.tree, state.association_ids)
        return rank(state, settings, used, self.at, self.stored)

    def _factor(self, name: str, settings: PrioritySettings) -> Factor:
        if name in self.stored:
            return cast("Factor", _Remembered(self.stored[name]))
        if name in self.unknown or not is_own(name):
            raise CannotRank(name)
        return load_factor(name, settings)


class _Remembered(Stored):
    """A factor that is not computed here: the ranking uses its last good values."""

    lowest, highest = -np.inf, np.inf

    def __init__(self, row: FactorValues) -> None:
        self.name, self.per = row.name, row.per

    def values(self, context: FactorContext) -> FloatArray:  # noqa: ARG002 - a factor's signature
        """Fails, so that the last good values count."""
        raise FactorError(self.name, "its values are those of the newest ranking")


def read_live(connection: Connection, configuration: Configuration, at: float, failed: Collection[str]) -> Live:
    """The state of this transaction.

    ``configuration``: as its files state it. ``failed``: factors that failed in the newest full generation; their last
    good values count.

    Raises:
        CannotRank: the configuration names something that the records do not have.
    """
    catalog, found = read_catalog(connection), in_force(connection.exec_driver_sql, configuration)
    _check_names(found.configuration, catalog)
    source = RankingSource(found.configuration, catalog)
    source.use_inputs(found, catalog)
    jobs = load_columns(connection)
    source.load(connection, jobs)
    source.read_groups(connection)
    snapshot = source.jobs.snapshot()
    weighted = found.configuration.settings.priority.weights
    elsewhere = [name for name in weighted if name in failed or not is_own(name)]
    stored = stored_values(connection, elsewhere)
    return Live(
        state=source.adopt(snapshot, merged(snapshot)),
        source=source,
        configuration=with_recorded_groups(connection.exec_driver_sql, found.configuration),
        catalog=catalog,
        owners=_owners(connection, catalog, jobs.pending.associations),
        external={name: values for name, values in external_values(found).items() if name not in stored},
        stored=stored,
        unknown=frozenset(elsewhere) - stored.keys(),
        at=at,
    )


def _check_names(configuration: Configuration, catalog: Catalog) -> None:
    """The services write all names of a configuration before they use it; a command may be given another one."""
    partitions = {partition for partition, _ in catalog.queues}
    named = {qos.name for qos in configuration.settings.qos} - catalog.qos.keys()
    if named or not {partition.name for partition in configuration.partitions} <= partitions:
        raise CannotRank("the configuration has names that the records do not have")


def _owners(connection: Connection, catalog: Catalog, associations: np.ndarray) -> Owners:
    names = [("", "")] * (max(catalog.associations.values(), default=-1) + 1)
    for pair, id_ in catalog.associations.items():
        names[id_] = pair
    return Owners(associations, names, active_by_association(connection))


def with_offsets(state: RankingState, offsets: Mapping[str, int]) -> RankingState:
    """The state in which these queues, by path in lower case, have other offsets, in each partition."""
    queues = [
        [
            view
            if (offset := offsets.get(view.path.lower())) is None
            else msgspec.structs.replace(
                view, properties=msgspec.structs.replace(view.properties, priority_offset=offset)
            )
            for view in views
        ]
        for views in state.queues
    ]
    return msgspec.structs.replace(state, queues=queues)


def with_qos(state: RankingState, priorities: Mapping[int, int]) -> RankingState:
    """The state in which QoS, by id, have other priorities."""
    found = state.qos_priorities.copy()
    for id_, priority in priorities.items():
        found[id_] = priority
    return msgspec.structs.replace(state, qos_priorities=found)


def with_class_values(state: RankingState, changed: Sequence[tuple[np.ndarray, int]]) -> RankingState:
    """The state in which jobs, by ids, have other values of their classes."""
    values = state.jobs.class_values.copy()
    for ids, value in changed:
        values[np.isin(state.jobs.ids, ids)] = value
    jobs = msgspec.structs.replace(state.jobs, class_values=values)
    return msgspec.structs.replace(state, jobs=jobs)
