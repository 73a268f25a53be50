"""A control plane without a node: etcd, kube-apiserver and, where asked for, Kueue, as processes of the
caller.

    with control_plane(folder, programs) as plane:      plane.url, plane.kubeconfig(...)
        with kueue(plane, programs, config=...):        decides about Workloads until the block ends
        with controllers(plane, programs, names):       of Kubernetes itself, such as its garbage collector
        with scheduler(plane, programs), kwok(plane, programs), karpenter(plane, programs, types):
                                                        nodes that are bought for pods, and run them

Needs no root and no container. Everything listens on loopback at free ports, is in one folder, and is gone
with the block, or with the caller if that is killed.
"""

from tests.envtest.control_plane import ControlPlane, control_plane, path_of
from tests.envtest.controllers import controllers, karpenter, kwok, scheduler
from tests.envtest.kueue import kueue
from tests.envtest.process import Programs, ensure, found, missing, program

__all__ = [
    "ControlPlane",
    "Programs",
    "control_plane",
    "controllers",
    "ensure",
    "found",
    "karpenter",
    "kueue",
    "kwok",
    "missing",
    "path_of",
    "program",
    "scheduler",
]
