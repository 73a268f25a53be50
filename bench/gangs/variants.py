"""The variants that are compared: two checks, each with Kueue as shipped in its chart and with a tuned Kueue.

Responsible for what "tuned" means. Both checks always have the same Kueue, so only the check differs.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from bench.gangs.shapes import Shape, stack_of
from muster.model.gangpolicy import crd
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.render import gang, kueue
from muster.render.manifest import Manifest

# Far from any bound of Kueue's own client, and as many Workloads at a time as ours takes (and then some).
_TUNED: Final = {
    "clientConnection": {"qps": 2000, "burst": 4000},
    "controller": {
        "groupKindConcurrency": {
            "Workload.kueue.x-k8s.io": 32,
            "LocalQueue.kueue.x-k8s.io": 5,
            "ClusterQueue.kueue.x-k8s.io": 5,
        }
    },
}
# Its own pause between two tries is what makes the built-in check hold quota: as short as would be wise.
_TUNED_RETRIES: Final = {"backoffLimitCount": 100, "backoffBaseSeconds": 5, "backoffMaxSeconds": 60}


@dataclass(frozen=True, slots=True)
class Contender:
    mode: GangMode
    is_tuned: bool

    @property
    def name(self) -> str:
        return f"{self.mode}{'-tuned' if self.is_tuned else ''}"

    def objects(self, shape: Shape) -> list[Manifest]:
        """Everything that the check and the queues need, in an order that can be applied."""
        stack = self._stack(shape)
        own = [crd(), gang.policy(stack)] if self.mode is GangMode.MUSTER else []
        found = [*own, *kueue.flavors(stack), *kueue.priority_classes(stack), *self._checks(stack)]
        for teams in kueue.by_department(stack).values():
            found += [each for objects in teams.values() for each in objects if _is_a_queue(each)]
        return found

    def kueue_config(self, chart: Path) -> dict[str, Any]:
        """The chart's own configuration, managing only Jobs, with the changes of the tuning."""
        values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
        shipped = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
        frameworks = {"integrations": {"frameworks": ["batch/job"]}}
        return {**shipped, **frameworks, **(_TUNED if self.is_tuned else {})}

    def _stack(self, shape: Shape) -> Stack:
        return replace(stack_of(shape), gang_admission=GangAdmission(mode=self.mode))

    def _checks(self, stack: Stack) -> list[Manifest]:
        return [self._shipped(each) for each in kueue.admission_check(stack)]

    def _shipped(self, item: Manifest) -> Manifest:
        """Muster's stacks give Kueue's own check more retries than Kueue does; here it has Kueue's."""
        if item["kind"] != "ProvisioningRequestConfig":
            return item
        spec = {key: value for key, value in item["spec"].items() if key != "retryStrategy"}
        return {**item, "spec": {**spec, **({"retryStrategy": _TUNED_RETRIES} if self.is_tuned else {})}}


ALL: Final = tuple(
    Contender(mode, is_tuned) for is_tuned in (False, True) for mode in (GangMode.BUILTIN, GangMode.MUSTER)
)


def _is_a_queue(item: Manifest) -> bool:
    return item["kind"] in ("Namespace", "Cohort", "ClusterQueue", "LocalQueue")
