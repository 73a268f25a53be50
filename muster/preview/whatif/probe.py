"""Whether Kueue has come round: a Workload that it can admit at once, in a queue that nobody else uses.

A machine that is busy leaves Kueue without a processor for seconds, and then it is as quiet as when it is
done. Who asks for a turn and gets it knows that Kueue works, and how long it takes to answer. The queue has
no Cohort, and asks for a resource that nothing else asks for, so nobody's quota is touched.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.live.fields import text
from muster.model import names
from muster.preview.whatif.fixtures import ManifestBatch, with_path
from muster.preview.whatif.outcome import is_true

_NAME: Final = "muster-what-if"
_RESOURCE: Final = "muster.dev/turn"
_QUEUE: Final = "default"
PATH: Final = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{_NAME}/workloads"


def manifest_batches() -> list[ManifestBatch]:
    """What has to be on the stage for it."""
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
    """The turns of one side, one at a time. Times are those of `time.monotonic`."""

    asked: float = 0.0
    answered: float = 0.0
    number: int = 0

    @property
    def is_open(self) -> bool:
        """Whether one was asked for and not answered."""
        return self.asked > self.answered

    def took(self, since: float) -> float | None:
        """Seconds that Kueue took to answer what was asked after `since`; None where it has not."""
        return self.answered - self.asked if since < self.asked <= self.answered else None

    def ask(self) -> dict[str, Any]:
        """The Workload to create."""
        self.number, self.asked = self.number + 1, time.monotonic()
        requests = {"requests": {_RESOURCE: "1"}, "limits": {_RESOURCE: "1"}}
        pods = {
            "containers": [{"name": "turn", "image": "none", "resources": requests}],
            "restartPolicy": "Never",
        }
        return {
            "apiVersion": names.KUEUE_API_VERSION,
            "kind": "Workload",
            "metadata": {"name": f"turn-{self.number}", "namespace": _NAME},
            "spec": {
                "queueName": _QUEUE,
                "priority": 0,
                "active": True,
                "podSets": [{"name": "main", "count": 1, "template": {"metadata": {}, "spec": pods}}],
            },
        }

    def see(self, workload: Mapping[str, Any]) -> None:
        is_last = text(workload, "metadata", "name") == f"turn-{self.number}"
        if is_last and self.is_open and is_true(workload, "QuotaReserved"):
            self.answered = time.monotonic()
