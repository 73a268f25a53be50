"""The settings of KubeRay's operator, in the two formats of its two ways of installation.

Responsible for concurrency, the fixed head name and the batch scheduler.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.model.stack import Scheduler

# One reconcile at a time, the operator's default, makes a hundred clusters wait for each other
# (kuberay issue 3909: a scale-up of 500 workers delayed all others by ten minutes; with 10 at a time 10,000
# pods took 3 min 20 s).
CONCURRENCY: Final = 10

# The operator's own default; its liveness probe asks there as well.
METRICS_PORT: Final = 8080

# With generated names, KubeRay makes a second head when the API server dies before it has answered for the
# first, and then gives up on the cluster: "2 head pods found". With a fixed name the second try finds it.
ONE_HEAD: Final[Mapping[str, str]] = {"name": "ENABLE_DETERMINISTIC_HEAD_POD_NAME", "value": "true"}

KAI: Final = "kai-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One installation. `resources` and `node_selector` are Kubernetes' own spelling."""

    image: str
    scheduler: Scheduler
    resources: Mapping[str, Any]
    node_selector: Mapping[str, str]

    @property
    def batch_scheduler(self) -> str:
        """KubeRay's setting, supported from 1.5 on, the minimum version of every stack. Empty for Kueue,
        which suspends jobs and not pods; any value would assign the pods to a scheduler that does not exist.
        """
        return KAI if self.scheduler is Scheduler.KAI else ""

    def arguments(self) -> list[str]:
        """The program's flags, for its plain manifests."""
        flags = [f"--reconcile-concurrency={CONCURRENCY}"]
        return [*flags, f"--batch-scheduler={self.batch_scheduler}"] if self.batch_scheduler else flags

    def chart_values(self) -> dict[str, Any]:
        """The same for its chart."""
        repository, _, tag = self.image.rpartition(":")
        return {
            "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
            "nodeSelector": dict(self.node_selector),
            "resources": dict(self.resources),
            "reconcileConcurrency": CONCURRENCY,
            "env": [dict(ONE_HEAD)],
            "batchScheduler": {"name": self.batch_scheduler},
        }
