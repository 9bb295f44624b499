"""The one function of this package. It decides on a document with the daemon's own functions.

    admission (names, classes, urgency)  ->  ranking  ->  a scheduling cycle  ->  rows

Inputs that a document can't contain are in `Surroundings`: the parsed queues and the loaded plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.admission.class_check import read_class
from rankd.core.admission.priority_class import ClassTable
from rankd.core.errors import ConfigurationError, Problem, Refused
from rankd.core.evaluate.accounts import Accounts
from rankd.core.evaluate.admission import Rejection, Rules
from rankd.core.evaluate.answer import answer, ranks_of
from rankd.core.evaluate.check import Range, check
from rankd.core.evaluate.document import Document
from rankd.core.evaluate.first_use import admit_making_queues
from rankd.core.evaluate.placing import NodeSorts, place
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.evaluate.result import Ranks, Result, Warned
from rankd.core.evaluate.state import ApplicationSorts, Situation, build
from rankd.core.model.access import AccessLists
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import Factor, FactorContext, Per
from rankd.core.ranking.ranking import Ranking, rank


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs besides a document.

    ``factors``: the factors in its weights that plugins provide. ``ranges``: the lowest and highest value of installed
    factors. ``application_sorts``: all policies named by leaf queues of the catalogue, or by leaf queues that first use
    may make in it. ``classes`` and ``default_qos`` are used if the document has none.
    """

    catalogue: QueueCatalogue
    warnings: Sequence[Warned] = ()
    factors: Mapping[str, Factor]
    ranges: Mapping[str, Range]
    node_sorts: NodeSorts
    application_sorts: ApplicationSorts
    classes: Sequence[PriorityClass] = ()
    default_qos: str | None = None


def evaluate(document: Document, surroundings: Surroundings) -> Result:
    """Decide everything at the document's ``now``. Pure: the same document gives the same result.

    Raises:
        ConfigurationError: with the problems of the document; the paths begin with ``$``.
    """
    situation, ranking, rejected = _ranked(document, surroundings)
    placed = place(situation, ranking, surroundings.node_sorts)
    return answer(situation, ranking, placed, rejected, surroundings.warnings, surroundings.node_sorts)


def evaluate_ranks(document: Document, surroundings: Surroundings) -> Ranks:
    """The ranks of :func:`evaluate`, without a scheduling cycle and without rows for people.

    Raises:
        ConfigurationError: as :func:`evaluate`.
    """
    return ranks_of(*_ranked(document, surroundings))


def _ranked(document: Document, surroundings: Surroundings) -> tuple[Situation, Ranking, list[Rejection]]:
    """The jobs that are admitted, their ranking, and those that are not."""
    problems = check(document, surroundings.ranges, surroundings.factors)
    classes = _classes(document, surroundings, problems)
    if problems:
        raise ConfigurationError(problems)
    settings, qos = document.priority or PrioritySettings(), document.qos or []
    lists = document.access or AccessLists()
    accounts = Accounts.of(document.associations or [], document.unknown_association, lists.accounts.keys())
    catalogue, admitted = admit_making_queues(
        document, surroundings.catalogue, lambda f: Rules.of(f, classes, accounts, qos, surroundings.default_qos, lists)
    )
    situation = build(document, catalogue, accounts, admitted, qos, surroundings.application_sorts)
    factors = [surroundings.factors.get(name) or Given(name) for name in settings.weights]
    ranked_at = document.now if document.ranked_at is None else document.ranked_at
    ranking = rank(situation.state, settings, factors, ranked_at, outright=situation.outright)
    return situation, ranking, admitted.rejected


def _classes(document: Document, surroundings: Surroundings, problems: list[Problem]) -> ClassTable:
    """The document's classes. Rules do not apply to them, as to stored classes. Malformed ones go to ``problems``."""
    if document.priority_classes is None:
        return ClassTable.of(surroundings.classes)
    read: dict[str, PriorityClass] = {}
    for place_, raw in enumerate(document.priority_classes):
        path = f"$.priority_classes[{place_}]"
        try:
            given = read_class(msgspec.json.decode(raw))
        except Refused as refusal:
            problems.append(Problem(path=f"{path}.{refusal.field}" if refusal.field else path, message=refusal.message))
            continue
        except msgspec.DecodeError as error:
            problems.append(Problem(path=path, message=str(error)))
            continue
        if given.name in read:
            problems.append(Problem(path=f"{path}.name", message=f"'{given.name}' is listed twice; remove one"))
        read[given.name] = given
    return ClassTable.of(read.values())


class Given:
    """A factor without a plugin. All its values are given by the jobs."""

    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, name: str) -> None:
        self.name = name

    def values(self, context: FactorContext) -> FloatArray:
        """Zeros. The values given by the jobs replace them."""
        return np.zeros(len(context.jobs))

    def sql(self) -> str | None:
        """Returns None: the factor is never stored."""
        return None

    def parameters(self) -> Mapping[str, float]:
        """Returns an empty mapping: there is no formula."""
        return {}
