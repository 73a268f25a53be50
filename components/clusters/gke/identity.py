"""Who a GKE node is: a service account with what the node's own agents need, and nothing else.

Pods do not use it: Workload Identity gives them their own, and the metadata server hides the node's.
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.model.clusters import GkeCluster
from muster.model.google_names import node_account

# Logs, metrics and what kubelet asks for; and images of the project's own registry.
# https://cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster#use_least_privilege_sa
ROLES: Final = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")


class NodeIdentity:
    """`email` of the account; `granted`: its roles, to wait for before nodes start. `given`: an account that
    exists already, which gets no roles here.
    """

    email: pulumi.Input[str]
    granted: list[pulumi.Resource]

    def __init__(
        self,
        cluster: GkeCluster,
        *,
        prefix: str,
        given: pulumi.Input[str] | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        self.granted = []
        if given is not None:
            self.email = given
            return
        account = gcp.serviceaccount.Account(
            f"{prefix}-nodes",
            account_id=node_account(cluster),
            project=cluster.project,
            display_name=f"Nodes of the GKE cluster {cluster.name}",
            opts=opts,
        )
        self.email = account.email
        for role in ROLES:
            grant = gcp.projects.IAMMember(
                f"{prefix}-nodes-{role.rpartition('.')[2].rpartition('/')[2]}",
                project=cluster.project,
                role=role,
                member=account.email.apply(lambda email: f"serviceAccount:{email}"),
                opts=opts,
            )
            self.granted.append(grant)
