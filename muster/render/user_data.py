"""User data of EKS nodes: local NVMe disks as one striped volume under images, logs and containers' files,
and SOCI as what pulls images.

Source: https://docs.aws.amazon.com/eks/latest/eksctl/node-bootstrapping.html,
https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/,
https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/ and
https://bottlerocket.dev/en/os/1.44.x/api/settings/container-runtime-plugins, read 2026-11-27
"""

import json
from typing import Any, Final

from muster.model.nodes import Image, ImagePull, LocalDisks
from muster.model.pools import Pool

_BOUNDARY: Final = "MUSTER"
_BIND: Final = ["apiclient", "ephemeral-storage", "bind", "--dirs"]
_DIRECTORIES: Final = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]
_SOCI_DIRECTORY: Final = "/var/lib/soci-snapshotter"


def user_data(pool: Pool, *, by_karpenter: bool = False) -> str | None:
    """The text for the image of the pool; None where its nodes boot as they are. Karpenter has a field for
    the disks.
    """
    has_disks = pool.local_disks is LocalDisks.EPHEMERAL and not by_karpenter
    is_parallel = pool.image_pull is ImagePull.PARALLEL
    if not has_disks and not is_parallel:
        return None
    bottlerocket = pool.image is Image.BOTTLEROCKET
    return (_bottlerocket if bottlerocket else _al2023)(has_disks=has_disks, is_parallel=is_parallel)


def _al2023(*, has_disks: bool, is_parallel: bool) -> str:
    """EKS puts its own part beside this one, so it has to be a part of a MIME document. JSON is YAML."""
    spec: dict[str, Any] = {}
    if has_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if is_parallel:
        spec["featureGates"] = {"FastImagePull": True}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return "\n".join(
        (
            "MIME-Version: 1.0",
            f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"',
            "",
            f"--{_BOUNDARY}",
            "Content-Type: application/node.eks.aws",
            "",
            json.dumps(config, sort_keys=True),
            f"--{_BOUNDARY}--",
            "",
        )
    )


def _bottlerocket(*, has_disks: bool, is_parallel: bool) -> str:
    lines: list[str] = []
    if has_disks:
        directories = [*_DIRECTORIES, *([_SOCI_DIRECTORY] if is_parallel else [])]
        commands = [["apiclient", "ephemeral-storage", "init"], [*_BIND, *directories]]
        lines += [
            "[settings.bootstrap-commands.local-disks]",
            f"commands = {json.dumps(commands)}",
            'mode = "always"',
            "essential = true",
        ]
    if is_parallel:
        lines += [
            "[settings.container-runtime]",
            'snapshotter = "soci"',
            "[settings.container-runtime-plugins.soci-snapshotter]",
            'pull-mode = "parallel-pull-unpack"',
        ]
    return "\n".join((*lines, ""))
