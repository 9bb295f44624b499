"""The numbers in force that What if has sliders for."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader
from rankd.store.look.class_list import classes
from rankd.store.look.priority_list import weights
from rankd.store.look.queue_list import queues
from rankd.store.look.web.look import Given, Look


class FormShown(NamedTuple):
    """``classes``: values by name. ``offsets``: by the path of each queue below a root. ``leaves``: their paths."""

    weights: dict[str, float]
    classes: dict[str, int]
    offsets: dict[str, int]
    leaves: list[str]


def _form(reader: Reader, _asker: Submitter, _given: Given) -> FormShown:
    tree = queues(reader)
    return FormShown(
        weights(reader),
        {row["name"]: row["value"] for row in classes(reader)},
        {row["path"]: row["offset"] for row in tree if "." in row["path"]},
        [row["path"] for row in tree if row["is_leaf"]],
    )


FORM = Look("form", FormShown, _form, is_list=True)
