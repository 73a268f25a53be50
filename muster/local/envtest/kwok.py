"""KWOK as a process of the caller: nodes without a machine, on which pods count as running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from muster.local.envtest.control_plane import ControlPlane
from muster.local.envtest.process import Process, free_port
from muster.local.envtest.programs import Programs

STAGES: Final = "kwok-stages"
ANNOTATION: Final = {"kwok.x-k8s.io/node": "fake"}
"""On the nodes that it keeps."""
# Pods run until someone ends them: `pod-complete` would end those of a Job at once.
_STAGES: Final = (
    *("node/fast/node-initialize.yaml", "node/heartbeat/node-heartbeat.yaml"),
    *("pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml"),
)


@contextmanager
def kwok(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Keep every annotated node alive until the block ends."""
    stages = programs.assets[STAGES]
    files = [stages / each for each in _STAGES]
    argv = [programs.program("kwok"), *flags(plane.kubeconfig(), files)]
    process = Process("kwok", argv, log=plane.folder / "kwok.log")
    process.start()
    try:
        yield process
    finally:
        process.kill()


def flags(kubeconfig: Path, stages: Sequence[Path]) -> tuple[str, ...]:
    """For nodes with the annotation and no others."""
    [(key, value)] = ANNOTATION.items()
    return (
        f"--kubeconfig={kubeconfig}",
        *(f"--config={each}" for each in stages),
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={key}={value}",
        "--node-ip=10.0.0.1",
        f"--server-address=127.0.0.1:{free_port()}",
        "--enable-crds=",
    )
