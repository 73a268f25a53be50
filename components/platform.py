"""The platform: everything that a stack puts into its cluster. The only place that knows the order.

CRDs stand before the programs that look for them; programs serve before the objects that they judge; teams
come last and go first, while Kueue, KubeRay and our controller are there to let go of their finalizers.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from components.bundle import Bundle, BundleProvider, text
from components.cluster_autoscaler import ClusterAutoscaler
from components.clusters.cluster import cluster_of
from components.footprint import footprint
from components.gang_admission import GangAdmission
from components.gpu_operator import GpuOperator
from components.identities import Identities
from components.kuberay import KubeRay
from components.observability import Observability
from components.priorities import Priorities
from components.queues import Queues
from components.schedulers.kai import Kai
from components.schedulers.kueue import Kueue
from components.tenancy import Tenancy
from model import queuetree
from model.clusters import EksCluster, Provider
from model.gangpolicy import crd
from model.gpu_operator import cloud_of, installation
from model.render import queues
from model.stack import GangMode, Scheduler, Stack, keeps_kinds
from stackconfig.artifacts import Artifacts


class Platform(pulumi.ComponentResource):
    """`queue_names`: team -> the queues that its work may use, by pool where each pool has its own."""

    def __init__(
        self, name: str, *, stack: Stack, artifacts: Artifacts, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:Platform", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.cluster = cluster_of(stack, opts=child)
        provider, bundles = self.cluster.kubernetes, self.cluster.bundles
        size = footprint(stack)
        self.crds = _crds(self, stack=stack, artifacts=artifacts, provider=bundles)
        self.scheduler = self._scheduler(stack, artifacts, provider=provider, bundles=bundles)
        self.autoscaler = self._autoscaler(stack, artifacts, provider=provider)
        self.kuberay = KubeRay(
            "kuberay",
            stack=stack,
            artifacts=artifacts,
            footprint=size,
            provider=provider,
            bundles=bundles,
            depends_on=[],
            opts=child,
        )
        self.gpu_operator = self._gpu_operator(stack, artifacts, provider=provider, bundles=bundles)
        serving = [self.scheduler.serving, self.kuberay.serving]
        self.gang_admission = self._gang_admission(stack, artifacts, provider=provider, bundles=bundles)
        if self.gang_admission is not None:
            serving += self.gang_admission.serving
            self.watching = Observability(
                "observability",
                stack=stack,
                provider=bundles,
                depends_on=[self.gang_admission.namespace],
                opts=child,
            )
        self.priorities = Priorities(
            "priorities", stack=stack, provider=bundles, depends_on=[self.scheduler.serving], opts=child
        )
        self.tenancy = Tenancy("tenancy", stack=stack, provider=bundles, depends_on=serving, opts=child)
        self.identities = Identities("identities", stack=stack, cloud=self.cluster.cloud, opts=child)
        self.queues = Queues(
            "queues",
            stack=stack,
            provider=bundles,
            depends_on=[*self.priorities.classes, self.tenancy.in_force],
            identities=self.identities.of_teams,
            opts=child,
        )
        self.queue_names = queues.names_by_team(stack)
        self.register_outputs({"queueNames": self.queue_names})

    def _scheduler(
        self, stack: Stack, artifacts: Artifacts, *, provider: kubernetes.Provider, bundles: BundleProvider
    ) -> Kueue | Kai:
        kind, name = (Kai, "kai") if stack.scheduler is Scheduler.KAI else (Kueue, "kueue")
        return kind(
            name,
            stack=stack,
            artifacts=artifacts,
            footprint=footprint(stack),
            provider=provider,
            bundles=bundles,
            depends_on=[self.crds],
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _gpu_operator(
        self, stack: Stack, artifacts: Artifacts, *, provider: kubernetes.Provider, bundles: BundleProvider
    ) -> GpuOperator | None:
        wanted = installation(stack)
        if wanted is None:
            return None
        return GpuOperator(
            "gpu-operator",
            wanted=wanted,
            artifacts=artifacts,
            footprint=footprint(stack),
            provider=provider,
            bundles=bundles,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _autoscaler(
        self, stack: Stack, artifacts: Artifacts, *, provider: kubernetes.Provider
    ) -> ClusterAutoscaler | None:
        """GKE has its own; in an existing cluster it is somebody else's."""
        if not isinstance(stack.cluster, EksCluster):
            return None
        return ClusterAutoscaler(
            "autoscaler",
            cluster=stack.cluster,
            artifacts=artifacts,
            footprint=footprint(stack),
            provider=provider,
            # It looks for ProvisioningRequests when it starts.
            depends_on=[self.crds],
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _gang_admission(
        self, stack: Stack, artifacts: Artifacts, *, provider: kubernetes.Provider, bundles: BundleProvider
    ) -> GangAdmission | None:
        if stack.gang_admission.mode is not GangMode.MUSTER:
            return None
        return GangAdmission(
            "gang-admission",
            stack=stack,
            artifacts=artifacts,
            footprint=footprint(stack),
            provider=provider,
            bundles=bundles,
            # Its caches are of the scheduler's kinds: it comes up in one go when they are there.
            depends_on=[self.scheduler.serving],
            opts=pulumi.ResourceOptions(parent=self),
        )


def _crds(parent: pulumi.Resource, *, stack: Stack, artifacts: Artifacts, provider: BundleProvider) -> Bundle:
    """What others look for once, when they start: Kueue for ProvisioningRequests, ours for its GangPolicy.

    GKE serves ProvisioningRequests itself. Kinds outlive their stack: with one, every object of it would go.
    """
    manifests = {"gangpolicies": text([crd()]), "queuetrees": text([queuetree.crd()])}
    if cloud_of(stack.cluster) is not Provider.GKE:
        manifests["provisioningrequests"] = artifacts.crd("provisioningrequests").read_text()
    return Bundle(
        "crds",
        manifests=manifests,
        opts=pulumi.ResourceOptions(
            parent=parent, provider=provider, retain_on_delete=keeps_kinds(stack.artifacts)
        ),
    )
