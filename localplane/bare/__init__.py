"""A control plane without a node: etcd, kube-apiserver and, where asked for, Kueue, as processes of the
caller.

    with control_plane(folder, programs) as plane:      plane.url, plane.kubeconfig(...)
        with kueue(plane, programs, config=...):        decides about Workloads until the block ends
        with controllers(plane, programs, names):       of Kubernetes itself, such as its garbage collector

Needs no root and no container. Everything listens on loopback at free ports, lies in one folder, and is gone
with the block, or with the caller if that is killed.
"""

from localplane.bare.control_plane import ControlPlane, control_plane
from localplane.bare.controllers import controllers
from localplane.bare.kueue import kueue
from localplane.bare.paths import path_of
from localplane.bare.programs import Programs, ensure, found, missing

__all__ = [
    "ControlPlane",
    "Programs",
    "control_plane",
    "controllers",
    "ensure",
    "found",
    "kueue",
    "missing",
    "path_of",
]
