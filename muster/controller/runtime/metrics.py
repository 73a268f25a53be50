"""Every metric of the runtime, in one place; those of gangs are in muster.controller.gangs.metrics.

Decides names, units and labels. What every controller has is named as the Go libraries name it (client-go:
`workqueue_*`, `rest_client_*`, `leader_election_*`; controller-runtime: `controller_runtime_*`), so that
dashboards and alerts that exist for those show this program too; what only this program has is behind
`muster_`. No label takes its values from what users make: namespaces, jobs and uids are for logs and traces.
Leaves serving to `health`; `make reference` writes the help texts into docs/reference/metrics.md.
"""

from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from muster.controller.kube.transport import Call

RECONCILE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
QUEUE_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1000)
CALL_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30)
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
        self._declare_queues()
        self._declare_leading()
        self._declare_calls()
        self._declare_watching()
        self._declare_reviews()
        self._declare_checks()
        # Run for every call: each of the few counters is looked up once.
        self._request_counter = lru_cache(self.api_requests.labels)
        self._request_seconds = lru_cache(self.api_seconds.labels)

    def _declare_reconciling(self) -> None:
        self.reconcile_seconds = self._histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time of one reconcile with all its calls",
            "controller",
            buckets=RECONCILE_BUCKETS,
        )
        self.reconciles = self._counter(
            "controller_runtime_reconcile",
            "Reconciles: `success`, `requeue_after`, `conflict` (read again, not an error), "
            "`error`, `not_leading`",
            "controller",
            "result",
        )
        self.reconcile_errors = self._counter(
            "controller_runtime_reconcile_errors",
            "Reconciles that raised, by type of error, conflicts included",
            "controller",
            "error",
        )
        self.workers = self._gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Limit of concurrent reconciles",
            "controller",
        )
        self.active_workers = self._gauge(
            "controller_runtime_active_workers", "Reconciles that are running now", "controller"
        )

    def _declare_queues(self) -> None:
        self.queue_depth = self._gauge("workqueue_depth", "Keys that are ready and wait for a worker", "name")
        self.queue_delayed = self._gauge(
            "muster_workqueue_delayed", "Keys that wait for a time: a deadline, a backoff", "name"
        )
        self.queue_adds = self._counter("workqueue_adds", "Keys added", "name")
        self.queue_retries = self._counter(
            "workqueue_retries", "Keys that were delayed after a failure", "name"
        )
        self.queue_seconds = self._histogram(
            "workqueue_queue_duration_seconds",
            "How long a ready key waited for a worker",
            "name",
            buckets=QUEUE_BUCKETS,
        )
        self.work_seconds = self._histogram(
            "workqueue_work_duration_seconds",
            "How long a worker took for a key",
            "name",
            buckets=QUEUE_BUCKETS,
        )
        self.unfinished_seconds = self._gauge(
            "workqueue_unfinished_work_seconds", "Running time so far of all keys in work, summed", "name"
        )
        self.longest_seconds = self._gauge(
            "workqueue_longest_running_processor_seconds",
            "The longest running time of one key; a reconcile is cut off after 120 s",
            "name",
        )

    def _declare_leading(self) -> None:
        self.leader = self._gauge("leader_election_master_status", "1 while this process leads", "name")
        self.lease_seconds_left = self._gauge(
            "muster_lease_seconds_left",
            "Seconds, on the process's own monotonic clock, after which the leader stops writing "
            "unless it renews; renewed to 10 every 2 s",
            "name",
        )
        self.lease_renew_failures = self._counter(
            "muster_lease_renew_failures", "Lease renewals that failed", "name"
        )
        self.events = self._counter(
            "muster_events", "Kubernetes Events: `written`, `dropped` (too many at once), `failed`", "fate"
        )

    def _declare_calls(self) -> None:
        self.api_requests = self._counter(
            "rest_client_requests",
            "Attempts of calls; `code` 0: no answer",
            *("method", "verb", "code"),
        )
        self.api_seconds = self._histogram(
            "rest_client_request_duration_seconds",
            "Time of one attempt of a call; watches are left out",
            "verb",
            buckets=CALL_BUCKETS,
        )
        self.api_retries = self._counter(
            "rest_client_request_retries",
            "Repeated attempts, by the result of the attempt before",
            "verb",
            "code",
        )

    def _declare_watching(self) -> None:
        self.watch_events = self._counter("muster_watch_events", "Watch events", "resource", "type")
        self.watch_relists = self._counter(
            "muster_watch_relists",
            "Full lists: `start`, `expired` (410), `regressed` (the API server listed an older state)",
            "resource",
            "reason",
        )
        self.watch_failures = self._counter("muster_watch_failures", "Watches that broke", "resource")
        self.watch_lag = self._gauge(
            "muster_watch_lag_seconds",
            "Time since the API server last sent anything about a kind; a bookmark, about one a "
            "minute, counts",
            "resource",
        )
        self.cache_objects = self._gauge("muster_cache_objects", "Objects in the cache", "resource")
        self.cache_unreadable = self._gauge(
            "muster_cache_unreadable_objects",
            "Objects that cannot be decoded; the log names them",
            "resource",
        )

    def _declare_checks(self) -> None:
        self.admission_checks = self._gauge(
            "muster_admission_checks",
            "AdmissionChecks of Muster by whether they are active; Kueue gives quota only under "
            "active ones. Not reported with KAI",
            "active",
        )

    def _declare_reviews(self) -> None:
        self.webhook_seconds = self._histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time of one review",
            "webhook",
            buckets=WEBHOOK_BUCKETS,
        )
        self.webhook_requests = self._counter(
            "controller_runtime_webhook_requests", "Requests by HTTP status", "webhook", "code"
        )
        self.webhook_in_flight = self._gauge(
            "controller_runtime_webhook_requests_in_flight", "Requests that are being answered", "webhook"
        )
        self.webhook_reviews = self._counter(
            "muster_webhook_reviews",
            "Reviews: `allow`, `patch`, `deny`; `unreadable`: a field has the wrong type; "
            "`failed`: the log has the reason",
            "webhook",
            "verdict",
        )
        self.webhook_connections_dropped = self._counter(
            "muster_webhook_connections_dropped",
            "Connections closed by the webhooks: `full` and `bodies` to make room for others, "
            "`idle` after a long time without a request. `full` and `bodies` stay 0 unless many "
            "clients stall",
            "reason",
        )
        self.certificate_expiry = self._gauge(
            "muster_certificate_expiration_timestamp_seconds",
            "When our certificates expire: `serving`, `authority`",
            "certificate",
        )
        self.webhook_configuration_present = self._gauge(
            "muster_webhook_configuration_present",
            "1 while the webhook configuration exists and names webhooks, checked every 10 s; 0"
            " when it was deleted or emptied",
            "kind",
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def called(self, call: Call, code: int, seconds: float) -> None:
        """With `retrying` the observer of a `muster.controller.kube.client.Client`."""
        self._request_counter(call.method, call.verb, str(code)).inc()
        if call.verb != "watch":
            self._request_seconds(call.verb).observe(seconds)

    def retrying(self, call: Call, code: int) -> None:
        self.api_retries.labels(call.verb, str(code)).inc()
