"""Observability of an environment: how metrics are scraped, whether alerts are installed, where traces go.

Responsible for the settings of `muster:observability` and their defaults: metrics are served and announced by
annotations, which need no other component. A feature that needs a CRD that may be missing, or another host,
is off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster.model.keys import declared
from muster.model.quantities import GIB, Bytes, format_memory, parse_memory
from muster.model.section import Section

# Whether a recorder runs in the cluster, and where it keeps what it records: `muster:recording`.

LEAST_STORAGE: Final = Bytes(GIB)
"""A volume has to hold a few parts and the file that is written."""

_STORAGE: Final = Bytes(10 * GIB)


def _read_storage(section: Section, key: str) -> Bytes:
    if (value := section.get(key)) is None:
        return _STORAGE
    fix = f"write it like 10Gi; the least is {format_memory(LEAST_STORAGE)}."
    try:
        size = parse_memory(str(value))
    except ValueError as error:
        section.note(key, f"must be a size: {error}.", fix)
        return _STORAGE
    if size < LEAST_STORAGE:
        section.note(key, f"is {value}, which is too small.", fix)
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSettings:
    enabled: bool = declared(
        "Whether a recorder runs in the cluster and keeps arrivals, runs and evictions of its jobs.", False
    )
    storage: Bytes = declared(
        "The size of the recorder's volume. Before it is full, the oldest part of the recording is deleted.",
        _STORAGE,
        example="20Gi",
        read=_read_storage,
    )
    storage_class: str | None = declared(
        "The StorageClass of the volume.",
        None,
        default_text="the cluster's own default",
        example="standard-rwo",
    )
    ephemeral: bool = declared(
        "Whether the recording lies on the pod's node and is lost with the pod: for clusters without a "
        "StorageClass.",
        False,
    )
    names: bool = declared("Whether names of jobs, and of the nodes that they select, are recorded.", False)
    forecasts: bool = declared(
        "Whether annotation `muster.dev/forecast` of each waiting Workload says when it may start.", False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What teams may use in a month (UTC). What runs is never touched."""

    teams: Mapping[str, int] = declared(
        "GPU-hours a month of teams. At its end nothing more of the team starts until the next month.",
        {},
        example={"vision": 4000},
        minimum=1,
    )
    warn: float = declared(
        "The share of a budget from which on the queue says so.", 0.8, example=0.9, maximum=1
    )


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
    """`labels` go onto monitors, alerts and the dashboard: Prometheus operators select by them. `traces`:
    OTLP over HTTP.
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
