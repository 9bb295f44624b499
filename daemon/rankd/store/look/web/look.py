"""A look of the page: by its name, so that it can be asked for over the bus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader

T = TypeVar("T")

Given = Mapping[str, str]
"""The parameters of a view's address."""
NOBODY = Submitter("", privileged=False, sees="own")
"""An asker without jobs: for what belongs to no visitor."""


class Look(NamedTuple, Generic[T]):
    """``kind``: of its result, which is sent as JSON. ``is_for_page``: no user may ask for it, only the page itself.

    ``is_list``: it reads as much as a list does, so it waits with the lists.
    ``read`` reads a bounded number of rows, however many jobs wait. It returns nothing that the asker may not see.
    """

    name: str
    kind: type[T]
    read: Callable[[Reader, Submitter, Given], T]
    is_for_page: bool = False
    is_list: bool = False
