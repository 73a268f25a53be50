"""The real programs of a KAI stack as processes of the caller: KAI 0.12.0, KubeRay, KWOK and three
of Kubernetes' controllers.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from muster.local import kai
from muster.model import names
from tests import envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.process import PROVISIONING_CRD, Process, free_port, running_process

SWITCH: Final = "MUSTER_KAI"
KAI_CRDS: Final = kai.CRDS
_OTHERS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kuberay", "kwok")
WANTED: Final = (*kai.PROGRAMS, *_OTHERS)
JOBSET_CRD: Final = "jobset-config"
ASSETS: Final = (KAI_CRDS, PROVISIONING_CRD, "kuberay-config", "kwok-stages", JOBSET_CRD)
# Of Kubernetes itself: what goes with its owner, the taint of new nodes, and pods of what it makes them for.
_CONTROLLERS: Final = (
    *("garbage-collector-controller", "node-lifecycle-controller", "job-controller"),
    *("statefulset-controller", "deployment-controller", "replicaset-controller"),
)


@dataclass
class Running:
    """Every process by its name."""

    processes: dict[str, Process]

    def dead(self) -> list[str]:
        return [name for name, process in self.processes.items() if not process.is_alive]

    def logs(self, *, most: int = 1000) -> str:
        texts = {name: each.log.read_text(errors="replace") for name, each in self.processes.items()}
        return "\n".join(f"== {name}\n{text[-most:]}" for name, text in texts.items())


@contextmanager
def running(plane: ControlPlane, programs: Programs) -> Iterator[Running]:
    """All of them until the block ends. They act some moments after they start."""
    with ExitStack() as stack:
        stack.enter_context(envtest.controllers(plane, programs, _CONTROLLERS))
        started = Running({"kwok": stack.enter_context(envtest.kwok(plane, programs))})
        for name, flags in _flags().items():
            started.processes[name] = stack.enter_context(_one(plane, programs.program(name), name, flags))
        yield started


@contextmanager
def _one(plane: ControlPlane, program: str, name: str, flags: Sequence[str]) -> Iterator[Process]:
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    process = Process(name, [program, *flags], log=plane.folder / f"{name}.log", environment=environment)
    with running_process(process):
        yield process


def _flags() -> dict[str, tuple[str, ...]]:
    return {
        "kuberay": (
            f"--batch-scheduler={names.KAI_SCHEDULER}",
            "--metrics-addr=0",
            "--health-probe-bind-address=0",
            "--enable-leader-election=false",
        ),
        kai.SCHEDULER: kai.scheduler_flags(
            listen_port=free_port(), plugin_port=free_port(), period="500ms", verbosity=4
        ),
        **kai.controller_flags(),
    }
