"""Two teams on one ClusterQueue: work of both counts against one quota, in the order of its priorities."""

from collections.abc import Mapping
from typing import Any, Final

from muster.config import load
from muster.model import names
from muster.render import kueue
from muster.render.queuetree import submissions
from tests.envtest import ControlPlane
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.test_kueue_api import SHARED
from tests.integration.kueue_api.world import KUEUE, holds, pod
from tests.unit.model.kueue_files import rendered
from tests.waiting import eventually

_WHOLE_QUOTA: Final = 2


def _submit(server: ControlPlane, namespace: str, labels: Mapping[str, str]) -> None:
    """A Job that needs all GPUs of the queue."""
    job: dict[str, Any] = {"suspend": True, "parallelism": _WHOLE_QUOTA, "completions": _WHOLE_QUOTA}
    job["template"] = {"spec": {"restartPolicy": "Never", **pod("l4")}}
    meta = {"name": "train", "namespace": namespace, "labels": dict(labels)}
    apply(server, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})


def _workload(server: ControlPlane, namespace: str) -> dict[str, Any]:
    (found,) = server.call("GET", f"{KUEUE}/namespaces/{namespace}/workloads")["items"] or ({},)
    return dict(found)


def _is_admitted(server: ControlPlane, namespace: str) -> bool:
    found = _workload(server, namespace)
    return holds(found, "Admitted") and found["status"]["admission"]["clusterQueue"] == "vision"


def test_a_team_preempts_work_of_another_team_of_its_queue(kueue_server: ControlPlane) -> None:
    stack = load(SHARED)
    for item in rendered(stack):
        apply(kueue_server, item)
    assert kueue.names_by_team(stack) == {"speech": "vision", "vision": "vision"}
    low = {**submissions(stack)["vision"].labels(), names.PRIORITY_LABEL: "low"}
    _submit(kueue_server, "vision-ci", low)
    eventually("the owner's work is admitted", lambda: _is_admitted(kueue_server, "vision-ci"))
    _submit(kueue_server, "speech", submissions(stack)["speech"].labels())
    eventually("the other team's work is admitted", lambda: _is_admitted(kueue_server, "speech"))
    evicted = _workload(kueue_server, "vision-ci")
    assert not holds(evicted, "Admitted")
    assert holds(evicted, "Preempted")
