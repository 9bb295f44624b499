"""Figures as text that Prometheus reads: its own format, or OpenMetrics where the scraper asks for it.

The library ``prometheus-client`` (extra ``metrics``) writes the text, so that names of users can't break it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.metric.catalog import METRICS
from rankd.core.metric.figure import Figure, Metric, cumulative

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

NEEDED = "prometheus_client"


def is_installed() -> bool:
    """Whether the extra ``metrics`` is installed."""
    return find_spec(NEEDED) is not None


def check_installed() -> None:
    """Check that the library is there.

    Raises:
        Refused: ``not_installed``.
    """
    if not is_installed():
        raise Refused("not_installed", "metrics need one more package: pip install 'rankd[metrics]'", "metrics")


class Text:
    """A body and its content type."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self.body = body
        self.content_type = content_type


def rendered(figures: Iterable[Figure], accept: str) -> Text:
    """The figures in the format that a header ``Accept`` asks for. Unknown names and repeated figures are left out."""
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an extra

    encoder, content_type = choose_encoder(accept)
    return Text(encoder(_Registry(figures)), content_type)


class _Registry:
    """What the library's encoders take."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._by_name: dict[str, dict[tuple[str, ...], Figure]] = {}
        for figure in figures:
            metric = METRICS.get(figure.name)
            if metric is not None and len(metric.labels) == len(figure.labels):
                self._by_name.setdefault(figure.name, {}).setdefault(figure.labels, figure)

    def collect(self) -> Iterator[Family]:
        """The families, in the order of the catalog."""
        found = self._by_name
        return (_family(metric, found[name].values()) for name, metric in METRICS.items() if name in found)


def _family(metric: Metric, figures: Iterable[Figure]) -> Family:
    from prometheus_client.metrics_core import (  # noqa: PLC0415 - an extra
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for figure in figures:
            histogram.add_metric(figure.labels, cumulative(figure.counts), figure.value)
        return histogram
    of_kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = of_kind(metric.name, metric.text, labels=metric.labels)
    for figure in figures:
        family.add_metric(figure.labels, float(figure.value))
    return family
