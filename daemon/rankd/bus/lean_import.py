"""nats-py and msgspec for commands, without the parts that a command does not use. They take a third of their import.

``import nats`` imports JetStream, too: a hundred dataclasses and a parser of mails. Here it is imported when something
of it is first used. Two further modules are hidden meanwhile; both packages do without these. Services, which use all
of it, import it as usual.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType

HIDDEN = ("importlib.metadata", "typing_extensions")
"""``nats`` looks up its own version with the first one; ``msgspec`` prefers the second one to ``typing``."""
JETSTREAM = "nats.js"


class _Text(str):
    """A member of an enumeration of texts."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The text."""
        return str(self)


class Header:
    """Those of ``nats.js.api.Header`` that nats-py uses for messages that are not JetStream's."""

    STATUS = _Text("Status")
    DESCRIPTION = _Text("Description")
    CONSUMER_STALLED = _Text("Nats-Consumer-Stalled")


class _Late(ModuleType):
    """A package that is imported when a name of it is first used. It is changed in place, as by ``LazyLoader``."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__dict__.pop("api", None)
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


class _Api(ModuleType):
    """In the place of ``nats.js.api``, until something else of it is used."""

    Header = Header

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module(f"{JETSTREAM}.api"), name)


def import_lean() -> None:
    """Import both, unless this process has already imported nats-py. Without effect where it is not found."""
    if "nats" in sys.modules or (late := _late()) is None:
        return
    sys.modules[JETSTREAM] = late
    with _hidden(), _without_garbage():
        import msgspec  # noqa: F401, PLC0415 - with less than it would import otherwise
        import nats  # noqa: PLC0415 - the same
    nats.js = late  # as an import does


def _late() -> _Late | None:
    above = PathFinder.find_spec("nats")
    spec = None if above is None else PathFinder.find_spec(JETSTREAM, above.submodule_search_locations)
    if spec is None or spec.submodule_search_locations is None:
        return None
    late = _Late(JETSTREAM)
    late.__spec__, late.__package__, late.__path__ = spec, JETSTREAM, spec.submodule_search_locations
    late.__loader__, late.__file__ = spec.loader, spec.origin
    late.__dict__["api"] = _Api(f"{JETSTREAM}.api")
    return late


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Search for none meanwhile: what is imported lives to the end. This saves 5 ms."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _hidden() -> Iterator[None]:
    """Importing these fails meanwhile, unless they are there already."""
    names = [name for name in HIDDEN if name not in sys.modules]
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # the documented way
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
