"""Observability of an environment: how metrics are scraped, whether alerts are installed, where traces go.

Responsible for the settings of `muster:observability` and their defaults: metrics are served and announced by
annotations, which need no other component. A feature that needs a CRD that may be missing, or another host,
is off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Scraping(StrEnum):
    """How a metrics collector finds the controller's metrics."""

    OFF = "off"
    ANNOTATIONS = "annotations"
    """`prometheus.io/scrape` on the pods: a convention, read by most charts of Prometheus and by agents."""
    OPERATOR = "prometheus-operator"
    """A PodMonitor; needs the Prometheus operator's kinds."""
    GOOGLE = "google"
    """A PodMonitoring of Google Cloud Managed Service for Prometheus; GKE has its kinds."""

    @property
    def has_rules(self) -> bool:
        """Whether alerts are objects that Muster can make."""
        return self in (Scraping.OPERATOR, Scraping.GOOGLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability:
    """`labels` go onto monitors, alerts and the dashboard: Prometheus operators select by them. `runbooks` is
    the address of the page to which alerts link. `traces` is an OTLP endpoint over HTTP, `sample` the share
    of gangs that are traced.
    """

    metrics: Scraping = Scraping.ANNOTATIONS
    alerts: bool = False
    runbooks: str | None = None
    dashboard: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    traces: str | None = None
    sample: float = 1.0
