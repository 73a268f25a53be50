"""An existing cluster: how it is found, and who makes its nodes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from muster.model.clusters.common import AnyCluster
from muster.model.keys import declared
from muster.model.regions import NodeCloud, Provider
from muster.model.section import Section


class Autoscaler(StrEnum):
    """Who makes nodes there.

    `provisioning-requests`: one that answers ProvisioningRequests (GKE's, or cluster-autoscaler with
    --enable-provisioning-requests). `karpenter`: makes nodes for pending pods and does not support
    ProvisioningRequests, so a gang has no guarantee of all its nodes. `none`: the nodes exist already.
    """

    PROVISIONING_REQUESTS = "provisioning-requests"
    KARPENTER = "karpenter"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster(AnyCluster):
    """`context` None: the current one, of a named file. `cloud` None: nothing is installed on the nodes."""

    provider: ClassVar = Provider.EXISTING
    is_ours: ClassVar = False
    ANSWERS: ClassVar = Autoscaler.PROVISIONING_REQUESTS

    name: str = declared("A name for the cluster.", example="lab")
    context: str | None = declared(
        "The context in the kubeconfig; required without `kubeconfig`.", None, example="lab"
    )
    kubeconfig: str | None = declared(
        "The kubeconfig file.", None, default_text="kubectl's own", example="~/.kube/lab"
    )
    cloud: NodeCloud | None = declared(
        "The cloud of the nodes, which decides on their drivers; `existing` names none.",
        None,
        written_default=NodeCloud.EXISTING,
        example=NodeCloud.AKS.value,
    )
    autoscaler: Autoscaler = declared(
        "Who makes nodes: an autoscaler that answers ProvisioningRequests, Karpenter, or none.",
        Autoscaler.PROVISIONING_REQUESTS,
    )

    @staticmethod
    def complete(section: Section, values: dict[str, Any]) -> dict[str, Any]:
        if values["kubeconfig"] is None:
            section.require("context")
        cloud = values["cloud"]
        return {**values, "cloud": None if cloud is NodeCloud.EXISTING else cloud}

    @property
    def makes_nodes_for_pods(self) -> bool:
        return self.has_karpenter
