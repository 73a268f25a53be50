"""The programs that make objects of an API server come true: controller manager, scheduler, KWOK."""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.envtest import ControlPlane, Programs
from tests.envtest.process import Process, free_port

PROGRAMS: Final = ("kube-controller-manager", "kube-scheduler", "kwok")
STAGES: Final = "kwok-stages"
# A pod with this label is ready when it has the annotation: what it stands for then serves.
HOSTED: Final = ("app.kubernetes.io/name", "kueue")
SERVED: Final = "stand-in/serves"
_CONTROLLERS: Final = (
    *("namespace-controller", "garbage-collector-controller", "pod-garbage-collector-controller"),
    *("deployment-controller", "replicaset-controller", "daemonset-controller", "job-controller"),
    *("disruption-controller", "endpointslice-controller", "resourcequota-controller"),
    *("endpoints-controller", "node-lifecycle-controller"),
    *("clusterrole-aggregation-controller", "serviceaccount-controller"),
)


@contextmanager
def controllers(plane: ControlPlane, programs: Programs) -> Iterator[None]:
    """Until the block ends."""
    folder, kubeconfig = plane.folder, f"--kubeconfig={plane.kubeconfig()}"
    stages = folder / "stages.yaml"
    stages.write_text(yaml.safe_dump_all(_stages(programs.assets[STAGES])))
    flags = {
        "kube-controller-manager": (
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--service-account-private-key-file={folder / 'accounts.key'}",
            "--leader-elect=false",
            "--secure-port=0",
            # A busy machine is late with heartbeats.
            "--node-monitor-grace-period=10m",
        ),
        "kube-scheduler": ("--leader-elect=false", "--secure-port=0"),
        "kwok": (
            f"--config={stages}",
            "--manage-all-nodes=true",
            "--node-ip=10.0.0.1",
            f"--server-address=127.0.0.1:{free_port()}",
            "--enable-crds=",
        ),
    }
    plane.settle()
    with ExitStack() as stack:
        for name, own in flags.items():
            argv = [programs.program(name), kubeconfig, *own]
            process = Process(name, argv, log=folder / f"{name}.log")
            process.start()
            stack.callback(process.kill)
        yield


def _stages(assets: Path) -> list[dict[str, Any]]:
    parts = ("node/fast/node-initialize", "node/heartbeat/node-heartbeat", "pod/fast/pod-delete")
    ready = yaml.safe_load((assets / "pod/fast/pod-ready.yaml").read_text())
    others = [yaml.safe_load((assets / f"{part}.yaml").read_text()) for part in parts]
    label = f'.metadata.labels["{HOSTED[0]}"]'
    served = f'.metadata.annotations["{SERVED}"]'
    return [
        *others,
        _when(ready, "pod-ready", {"key": label, "operator": "NotIn", "values": [HOSTED[1]]}),
        _when(ready, "pod-serves", {"key": served, "operator": "Exists"}),
    ]


def _when(stage: dict[str, Any], name: str, expression: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(stage)
    made["metadata"]["name"] = name
    made["spec"]["selector"]["matchExpressions"].append(expression)
    return made
