"""What the page itself has to know, for all visitors: whether anything is new, its settings, the first places."""

from __future__ import annotations

import msgspec

from rankd.config.configuration import read_configuration
from rankd.core.admission.submitter import Submitter
from rankd.core.model.service_setting import WebSettings
from rankd.core.model.setting import Privacy, Settings
from rankd.store.engine.reading import Reader, tuples
from rankd.store.look.newest import Newest, newest
from rankd.store.look.rank_window import first_places
from rankd.store.look.web.look import Given, Look
from rankd.store.record.configuration import newest_recorded


class PageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration in force that the page uses. Without one, each visitor sees only the own jobs.

    ``privacy``: ``[privacy] jobs``. ``half_life_s``: of fair share. ``qos``: their priorities.
    """

    web: WebSettings = WebSettings()
    privacy: Privacy = "own"
    half_life_s: float | None = None
    max_pending_per_user: int | None = None
    qos: dict[str, int] = {}


def page_settings(settings: Settings) -> PageSettings:
    """What the page uses of these."""
    return PageSettings(
        web=settings.web,
        privacy=settings.privacy.jobs,
        half_life_s=settings.priority.fairshare.half_life_s,
        max_pending_per_user=settings.admission.max_pending_per_user,
        qos={one.name: one.priority for one in settings.qos},
    )


def _newest(reader: Reader, _asker: Submitter, _given: Given) -> Newest:
    return newest(reader)


def _settings(reader: Reader, _asker: Submitter, _given: Given) -> PageSettings:
    found = newest_recorded(lambda sql, *given: tuples(reader, sql, *given))
    if found is None:
        return PageSettings()
    return page_settings(read_configuration(found.directory, found.files).settings)


def _places(reader: Reader, _asker: Submitter, _given: Given) -> list[int]:
    return first_places(reader)


NEWEST = Look("newest", Newest, _newest)
SETTINGS = Look("settings", PageSettings, _settings, is_for_page=True)
PLACES = Look("places", list[int], _places, is_for_page=True)
