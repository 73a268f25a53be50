"""Observability of an environment: how metrics are scraped, whether alerts are installed, where traces go.

Responsible for the settings of `muster:observability` and their defaults: metrics are served and announced by
annotations, which need no other component. A feature that needs a CRD that may be missing, or another host,
is off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.model.keys import declared


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

    metrics: Scraping = declared(
        "How metrics are found: by annotations, a PodMonitor, a PodMonitoring, or not at all.",
        Scraping.ANNOTATIONS,
    )
    alerts: bool = declared("Whether alerts are installed.", False)
    runbooks: str | None = declared(
        "The address of the page to which alerts link, each to its own section: this documentation's metrics "
        "page, where your people can open it, or a page of your own.",
        None,
        default_text="alerts name the page of this documentation",
        example="https://docs.example.com/muster/reference/metrics.html",
    )
    dashboard: bool = declared("Whether a dashboard is installed.", False)
    labels: Mapping[str, str] = declared(
        "Labels of monitors, alerts and the dashboard.",
        {},
        default_text="none",
        example={"release": "prometheus"},
    )
    traces: str | None = declared(
        "An OTLP endpoint over HTTP.",
        None,
        default_text="no traces",
        example="http://otel-collector.monitoring:4318",
    )
    sample: float = declared("The share of gangs that are traced.", 1.0, example=0.1, maximum=1)
