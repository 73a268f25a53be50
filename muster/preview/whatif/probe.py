"""Measures whether Kueue responds: a probe Workload that it can admit at once, in a queue of its own.

On a busy machine Kueue may get no CPU time for seconds, and is then as quiet as when it is done. A probe that
was admitted shows that Kueue runs, and how long it takes to respond. The queue has no Cohort and uses a
resource that no other Workload requests, so no other quota is affected.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.live.fields import is_true, text
from muster.model import names
from muster.preview.whatif.trees import ManifestBatch, with_path

_NAME: Final = "muster-what-if"
_RESOURCE: Final = "muster.dev/probe"
_QUEUE: Final = "default"
PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{_NAME}/workloads"


def manifest_batches() -> list[ManifestBatch]:
    """The objects that a probe needs."""
    kueue = {"apiVersion": names.KUEUE_API_VERSION}
    quota = {"name": _NAME, "resources": [{"name": _RESOURCE, "nominalQuota": "1000000"}]}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [_RESOURCE], "flavors": [quota]}],
    }
    manifests: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAME}},
        {**kueue, "kind": "ResourceFlavor", "metadata": {"name": _NAME}, "spec": {}},
        {**kueue, "kind": "ClusterQueue", "metadata": {"name": _NAME}, "spec": queue},
        {
            **kueue,
            "kind": "LocalQueue",
            "metadata": {"name": _QUEUE, "namespace": _NAME},
            "spec": {"clusterQueue": _NAME},
        },
    ]
    return [[with_path(each)] for each in manifests]


def is_probe(workload: Mapping[str, Any]) -> bool:
    return text(workload, "metadata", "namespace") == _NAME


@dataclass(slots=True)
class Probes:
    """The probes of one side, one at a time. Times are those of `time.monotonic`."""

    sent: float = 0.0
    admitted: float = 0.0
    number: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a probe was sent and not admitted yet."""
        return self.sent > self.admitted

    def response_time(self, since: float) -> float | None:
        """Seconds that Kueue took to admit a probe sent after `since`; None without such a probe."""
        return self.admitted - self.sent if since < self.sent <= self.admitted else None

    def next(self) -> dict[str, Any]:
        """The next probe, as the Workload to create."""
        self.number, self.sent = self.number + 1, time.monotonic()
        requests = {"requests": {_RESOURCE: "1"}, "limits": {_RESOURCE: "1"}}
        pods = {
            "containers": [{"name": "probe", "image": "none", "resources": requests}],
            "restartPolicy": "Never",
        }
        return {
            "apiVersion": names.KUEUE_API_VERSION,
            "kind": "Workload",
            "metadata": {"name": f"probe-{self.number}", "namespace": _NAME},
            "spec": {
                "queueName": _QUEUE,
                "priority": 0,
                "active": True,
                "podSets": [{"name": "main", "count": 1, "template": {"metadata": {}, "spec": pods}}],
            },
        }

    def observe(self, workload: Mapping[str, Any]) -> None:
        is_last = text(workload, "metadata", "name") == f"probe-{self.number}"
        if is_last and self.is_open and is_true(workload, "QuotaReserved"):
            self.admitted = time.monotonic()
