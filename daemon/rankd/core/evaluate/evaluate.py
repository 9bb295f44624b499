"""The one function of this package: what would be decided on a document, by the daemon's own functions.

    admission (names, classes, urgency)  ->  ranking  ->  a scheduling cycle  ->  rows

What a document can't say itself comes with it as `Surroundings`: queues that are read already, loaded plugins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.admission.class_check import read_class
from rankd.core.admission.priority_class import ClassTable
from rankd.core.errors import ConfigurationError, Problem, Refused
from rankd.core.evaluate.accounts import Accounts
from rankd.core.evaluate.admission import Rules
from rankd.core.evaluate.answer import answer
from rankd.core.evaluate.check import Range, check
from rankd.core.evaluate.document import Document
from rankd.core.evaluate.first_use import admit_making_queues
from rankd.core.evaluate.placing import NodeSorts, place
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.evaluate.result import Result, Warned
from rankd.core.evaluate.state import ApplicationSorts, build
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import Factor, FactorContext, Per
from rankd.core.ranking.ranking import rank


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with a document.

    ``factors`` are those of its weights that plugins provide, ``ranges`` the values that installed factors take;
    ``application_sorts`` are those that leaves of the catalogue name, or leaves that first use makes in it; ``classes``
    and ``default_qos`` serve where the document has none of its own.
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
    problems = check(document, surroundings.ranges, surroundings.factors)
    classes = _classes(document, surroundings, problems)
    if problems:
        raise ConfigurationError(problems)
    settings, qos = document.priority or PrioritySettings(), document.qos or []
    accounts = Accounts.of(document.associations or [], document.unknown_association)
    catalogue, admitted = admit_making_queues(
        document, surroundings.catalogue, lambda f: Rules.of(f, classes, accounts, qos, surroundings.default_qos)
    )
    situation = build(document, catalogue, accounts, admitted, qos, surroundings.application_sorts)
    factors = [surroundings.factors.get(name) or Given(name) for name in settings.weights]
    ranking = rank(situation.state, settings, factors, document.now, outright=situation.outright)
    placed = place(situation, ranking, surroundings.node_sorts)
    return answer(situation, ranking, placed, admitted.rejected, surroundings.warnings, surroundings.node_sorts)


def _classes(document: Document, surroundings: Surroundings, problems: list[Problem]) -> ClassTable:
    """The document's classes, taken as they are, like stored ones; what is none is noted."""
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
            problems.append(Problem(path=f"{path}.name", message=f"'{given.name}' is there twice; remove one"))
        read[given.name] = given
    return ClassTable.of(read.values())


class Given:
    """A factor that no plugin provides, or need provide: nothing but the values that the jobs give."""

    per = Per.JOB
    lowest = 0.0
    highest = 1.0

    def __init__(self, name: str) -> None:
        self.name = name

    def values(self, context: FactorContext) -> FloatArray:
        """Replaced by what each job gives."""
        return np.zeros(len(context.jobs))

    def sql(self) -> str | None:
        """None: it is never stored."""
        return None

    def parameters(self) -> Mapping[str, float]:
        """None."""
        return {}
