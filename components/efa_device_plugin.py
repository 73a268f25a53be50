"""AWS's device plugin for EFA: it advertises the interfaces that the launch templates of EKS's pools attach.

Without it no pod can request `vpc.amazonaws.com/efa`, and a job of several nodes talks over TCP, which is
several times slower. One DaemonSet, as in AWS's own chart
(https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin), on the nodes of the pools
that have EFA and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from muster.components.component import Component
from muster.components.context import PlatformContext, child
from muster.model import names
from muster.render.manifest import manifest

_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
_DEVICES: Final = "/dev/infiniband"


@dataclass(frozen=True, slots=True, kw_only=True)
class EfaDevicePluginArgs:
    """`context`: the cluster to install into. `pools`: the names of the pools whose nodes have EFA."""

    context: PlatformContext
    pools: Sequence[str]


class EfaDevicePlugin(Component):
    """EFA is advertised once its nodes exist."""

    def __init__(
        self, name: str, args: EfaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:EfaDevicePlugin", name, opts)
        body = {
            **manifest("apps/v1", "DaemonSet", names.EFA_PLUGIN, namespace="kube-system"),
            "spec": daemon_set(args.pools, image=args.context.artifacts.image(names.EFA_PLUGIN)),
        }
        self.daemon_set = child(self, body, provider=args.context.provider)
        self.register_outputs({})


def daemon_set(pools: Sequence[str], *, image: str) -> dict[str, Any]:
    """The spec. The pod is root on the host's network, without any capability: it opens no device itself."""
    container = {
        "name": names.EFA_PLUGIN,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"memory": "100Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": False,
        },
        "volumeMounts": [
            {"name": "device-plugins", "mountPath": _PLUGINS},
            {"name": "devices", "mountPath": _DEVICES},
        ],
    }
    labels = {"app.kubernetes.io/name": names.EFA_PLUGIN}
    in_pools = {"key": names.POOL_LABEL, "operator": "In", "values": sorted(pools)}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [in_pools]}]
                        }
                    }
                },
                "automountServiceAccountToken": False,
                "containers": [container],
                "hostNetwork": True,
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists"}],
                "volumes": [
                    {"name": "device-plugins", "hostPath": {"path": _PLUGINS}},
                    {"name": "devices", "hostPath": {"path": _DEVICES}},
                ],
            },
        },
        "updateStrategy": {"type": "RollingUpdate"},
    }
