"""User data of EKS nodes: local NVMe disks as one striped volume under images, logs and containers' files,
SOCI as what pulls images, and GPUs that no container takes by a variable.

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
# NVIDIA's runtime starts every container of AL2023's NVIDIA images. By default it gives a container the GPUs
# that its variable NVIDIA_VISIBLE_DEVICES names: all, in most images of CUDA. The device plugin names them by
# CDI (model/gpu_operator.py). The runtime reads the file at each start of a container. cloud-init runs this
# before nodeadm starts the kubelet, without which the node never joins. Bottlerocket has this default.
# Source: https://github.com/NVIDIA/nvidia-container-toolkit at v1.20.0, internal/config/image/cuda_image.go
# and cmd/nvidia-ctk/config; https://github.com/awslabs/amazon-eks-ami at 81fec2e8, nodeadm/internal/
# containerd and templates/al2023/runtime/rootfs/etc/systemd/system/nodeadm-run.service, read 2026-11-27
_CLOSE_GPUS: Final = """\
#!/usr/bin/env bash
nvidia-ctk config --in-place --set accept-nvidia-visible-devices-envvar-when-unprivileged=false ||
  systemctl mask kubelet"""


def user_data(pool: Pool, *, by_karpenter: bool = False) -> str | None:
    """The text for the image of the pool; None where its nodes boot as they are. Karpenter has a field for
    the disks.
    """
    has_disks = pool.local_disks is LocalDisks.EPHEMERAL and not by_karpenter
    is_parallel = pool.image_pull is ImagePull.PARALLEL
    if pool.image is Image.BOTTLEROCKET:
        return _bottlerocket(has_disks=has_disks, is_parallel=is_parallel)
    return _al2023(
        has_disks=has_disks, is_parallel=is_parallel, closes_gpus=pool.is_nvidia and not pool.by_variable
    )


def _al2023(*, has_disks: bool, is_parallel: bool, closes_gpus: bool) -> str | None:
    """EKS puts its own part beside these, so they have to be parts of a MIME document. JSON is YAML."""
    spec: dict[str, Any] = {}
    if has_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    if is_parallel:
        spec["featureGates"] = {"FastImagePull": True}
    parts = {"text/x-shellscript": _CLOSE_GPUS} if closes_gpus else {}
    if spec:
        config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
        parts["application/node.eks.aws"] = json.dumps(config, sort_keys=True)
    if not parts:
        return None
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, part in parts.items():
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", part]
    return "\n".join((*lines, f"--{_BOUNDARY}--", ""))


def _bottlerocket(*, has_disks: bool, is_parallel: bool) -> str | None:
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
    return "\n".join((*lines, "")) if lines else None
