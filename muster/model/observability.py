"""How an environment is watched: who reads metrics, whether alerts are installed, where traces go.

Decides the words of `muster:observability` and what holds when it says nothing: metrics are served and
announced by annotations, which cost nothing and need nobody; whatever needs a kind that may not be installed,
or another host, is off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Scraping(StrEnum):
    """How whoever collects metrics finds ours."""

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
    """`labels` go onto monitors, alerts and the dashboard: Prometheus operators select by them. `traces` is
    an OTLP endpoint over HTTP, `sample` the share of gangs that are traced.
    """

    metrics: Scraping = Scraping.ANNOTATIONS
    alerts: bool = False
    dashboard: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    traces: str | None = None
    sample: float = 1.0
