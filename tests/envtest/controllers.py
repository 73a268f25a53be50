"""Kubernetes' own controllers, its scheduler, KWOK and Karpenter as processes of the caller.

Karpenter is the released controller with a stand-in for the cloud behind it. What the cloud sells is given at
the start; what it has in stock, and how it fails, is written to a ConfigMap at any time
(muster/local/builder/programs/karpenter/main.go). Nodes are KWOK's.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from muster.local.cluster import units
from muster.local.karpenter import (
    CLOUD,
    CRDS,
    DEFAULT_CLASS,
    NODE_CLASSES,
    PROGRAM,
    InstanceType,
    catalogue,
    environment,
    flags,
    node_class,
)
from tests.envtest.control_plane import ControlPlane
from tests.envtest.process import Process, Programs, free_port, running_process

_PROGRAM: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
_STAGES: Final = "kwok-stages"
"""The asset that holds the files of KWOK's stages."""
# Pods run until someone ends them: `pod-complete` would end those of a Job at once.
_ENDLESS_STAGES: Final = (
    *("node/fast/node-initialize.yaml", "node/heartbeat/node-heartbeat.yaml"),
    *("pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml"),
)


@contextmanager
def controllers(
    plane: ControlPlane, programs: Programs, names: Sequence[str], *, flags: Sequence[str] = ()
) -> Iterator[Process]:
    """Run these controllers until the block ends. `flags`: more of the program's.

    They act some moments after they start: a caller that needs their result waits for it.
    """
    argv = [
        programs.program(_PROGRAM),
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(names)}",
        "--leader-elect=false",
        # It serves nothing that the tests ask for.
        "--secure-port=0",
        *flags,
    ]
    process = Process(_PROGRAM, argv, log=plane.folder / f"{_PROGRAM}.log")
    plane.settle()
    with running_process(process):
        yield process


@contextmanager
def scheduler(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Run the scheduler until the block ends."""
    argv = [programs.program(SCHEDULER), f"--kubeconfig={plane.kubeconfig()}"]
    argv += ["--leader-elect=false", "--secure-port=0"]
    process = Process(SCHEDULER, argv, log=plane.folder / f"{SCHEDULER}.log")
    plane.settle()
    with running_process(process):
        yield process


@contextmanager
def kwok(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Keep every annotated node alive until the block ends."""
    options = units.kwok_flags(
        plane.kubeconfig(),
        programs.assets[_STAGES],
        _ENDLESS_STAGES,
        port=free_port(),
    )
    process = Process("kwok", [programs.program("kwok"), *options], log=plane.folder / "kwok.log")
    with running_process(process):
        yield process


_NAMESPACE: Final = "kube-system"
_CLOUD_PATH: Final = f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{CLOUD}"
_MERGE: Final = "application/merge-patch+json"
_BOOT_SECONDS: Final = 120.0


def define(plane: ControlPlane, programs: Programs) -> None:
    """Karpenter's kinds, and the class of all nodes here."""
    plane.define([kind for asset in CRDS for kind in programs.kinds(asset)])
    boot(plane, "0s")


@contextmanager
def karpenter(plane: ControlPlane, programs: Programs, types: Sequence[InstanceType]) -> Iterator[Process]:
    """Karpenter, acting, until the block ends."""
    file, health = plane.folder / "instance-types.json", free_port()
    file.write_text(catalogue(types))
    options = flags(types_file=str(file), metrics_port=free_port(), health_port=health)
    argv = [programs.program(PROGRAM), *options]
    surroundings = {**os.environ, **environment(str(plane.kubeconfig()), _NAMESPACE)}
    process = Process(PROGRAM, argv, log=plane.folder / "karpenter.log", environment=surroundings)
    process.start()
    try:
        process.await_(lambda: _is_ready(health), seconds=_BOOT_SECONDS)
        yield process
    finally:
        process.kill()


def stock(plane: ControlPlane, has: Mapping[str, str | None]) -> None:
    """Change what the cloud has: instances by `TYPE_ZONE`, and the words in the program's own description.
    None takes a line away.
    """
    empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CLOUD, "namespace": _NAMESPACE}}
    plane.apply(empty, _CLOUD_PATH)
    plane.call("PATCH", _CLOUD_PATH, {"data": dict(has)}, content_type=_MERGE)


def boot(plane: ControlPlane, takes: str) -> None:
    """How long the boot of an instance takes that is bought from now on."""
    plane.apply(node_class(DEFAULT_CLASS, boot=takes), f"{NODE_CLASSES}/{DEFAULT_CLASS}")


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
