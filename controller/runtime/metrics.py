"""Every metric of the program, in one place.

Decides names, units and labels: the names that the field uses for controllers, behind the prefix `muster_`.
Leaves serving them to `health`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

RECONCILE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
QUEUE_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1000)
WEBHOOK_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)


class Metrics:
    """The metrics of one process. Tests give each its own registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        if registry is None:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self._declare_reconciling()
        self._declare_watching()
        self._declare_serving()

    def _declare_reconciling(self) -> None:
        registry = self.registry
        self.reconcile_seconds = Histogram(
            "muster_reconcile_seconds",
            "Time of one reconcile",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self.reconciles = Counter(
            "muster_reconcile", "Reconciles by result", ["controller", "result"], registry=registry
        )
        self.reconcile_errors = Counter(
            "muster_reconcile_errors", "Reconciles that raised", ["controller", "error"], registry=registry
        )
        self.queue_depth = Gauge(
            "muster_workqueue_depth", "Keys ready and waiting", ["name"], registry=registry
        )
        self.queue_delayed = Gauge(
            "muster_workqueue_delayed", "Keys waiting for a time", ["name"], registry=registry
        )
        self.queue_adds = Counter("muster_workqueue_adds", "Keys added", ["name"], registry=registry)
        self.queue_retries = Counter(
            "muster_workqueue_retries", "Keys backed off", ["name"], registry=registry
        )
        self.queue_seconds = Histogram(
            "muster_workqueue_queue_duration_seconds",
            "Time from ready to taken",
            ["name"],
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.leader = Gauge("muster_leader", "1 while this process leads", ["lease"], registry=registry)
        self.lease_renew_failures = Counter(
            "muster_lease_renew_failures", "Lease renewals that failed", ["lease"], registry=registry
        )
        self.events = Counter("muster_events", "Events by fate", ["fate"], registry=registry)

    def _declare_watching(self) -> None:
        registry = self.registry
        self.api_requests = Counter(
            "muster_api_requests",
            "Calls to the API server; code 0: no answer",
            ["verb", "code"],
            registry=registry,
        )
        self.api_seconds = Histogram(
            "muster_api_request_seconds", "Time of one call", ["verb"], registry=registry
        )
        self.watch_events = Counter(
            "muster_watch_events", "Watch events received", ["resource", "type"], registry=registry
        )
        self.watch_relists = Counter(
            "muster_watch_relists", "Full lists", ["resource", "reason"], registry=registry
        )
        self.watch_failures = Counter(
            "muster_watch_failures", "Watches that broke", ["resource"], registry=registry
        )
        self.watch_lag = Gauge(
            "muster_watch_lag_seconds",
            "Time since the API server last said anything about this kind (a bookmark counts)",
            ["resource"],
            registry=registry,
        )
        self.cache_objects = Gauge("muster_cache_objects", "Objects held", ["resource"], registry=registry)
        self.cache_unreadable = Gauge(
            "muster_cache_unreadable_objects", "Objects that do not decode", ["resource"], registry=registry
        )

    def _declare_serving(self) -> None:
        registry = self.registry
        self.webhook_seconds = Histogram(
            "muster_webhook_seconds",
            "Time of one review",
            ["path"],
            buckets=WEBHOOK_BUCKETS,
            registry=registry,
        )
        self.webhook_reviews = Counter(
            "muster_webhook_reviews", "Reviews by verdict", ["path", "verdict"], registry=registry
        )
        self.certificate_seconds_left = Gauge(
            "muster_certificate_seconds_left", "Time until expiry", ["certificate"], registry=registry
        )

    def observe_call(self, verb: str, code: int, seconds: float) -> None:
        """The observer of a `controller.kube.client.Client`."""
        self.api_requests.labels(verb, str(code)).inc()
        if verb != "watch":
            self.api_seconds.labels(verb).observe(seconds)
