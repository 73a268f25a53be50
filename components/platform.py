"""The platform: everything that a stack puts into its cluster. The only place that knows the order.

CRDs stand before the programs that look for them; programs serve before the objects that they judge; teams
come last and go first, while Kueue, KubeRay and our controller are there to let go of their finalizers.
"""

import pulumi

from muster.artifacts.resolved import Artifacts
from muster.components.bundle import Bundle, text
from muster.components.cluster_autoscaler import ClusterAutoscaler
from muster.components.clusters.cluster import cluster_of
from muster.components.context import Ground
from muster.components.gang_admission import GangAdmission
from muster.components.gpu_operator import GpuOperator
from muster.components.identities import Identities
from muster.components.kuberay import KubeRay
from muster.components.observability import Observability
from muster.components.priorities import Priorities
from muster.components.queues import Queues
from muster.components.schedulers.kai import Kai
from muster.components.schedulers.kueue import Kueue
from muster.components.sizing import footprint
from muster.components.tenancy import Tenancy
from muster.model import queuetree
from muster.model.clusters import EksCluster, Provider
from muster.model.gangpolicy import crd
from muster.model.gpu_operator import cloud_of, installation
from muster.model.stack import GangMode, Scheduler, Stack, retains_crds
from muster.render import queues


class Platform(pulumi.ComponentResource):
    """`queue_names`: team -> the queues that its work may use, by pool where each pool has its own."""

    def __init__(
        self, name: str, *, stack: Stack, artifacts: Artifacts, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:Platform", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.cluster = cluster_of(stack, opts=child)
        bundles = self.cluster.bundles
        ground = Ground(
            stack=stack,
            artifacts=artifacts,
            footprint=footprint(stack),
            provider=self.cluster.kubernetes,
            bundles=bundles,
        )
        self.crds = _crds(self, ground)
        self.scheduler = self._scheduler(ground)
        self.autoscaler = self._autoscaler(ground)
        self.kuberay = KubeRay("kuberay", ground=ground, depends_on=[], opts=child)
        self.gpu_operator = self._gpu_operator(ground)
        serving = [self.scheduler.serving, self.kuberay.serving]
        self.gang_admission = self._gang_admission(ground)
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

    def _scheduler(self, ground: Ground) -> Kueue | Kai:
        kind, name = (Kai, "kai") if ground.stack.scheduler is Scheduler.KAI else (Kueue, "kueue")
        return kind(name, ground=ground, depends_on=[self.crds], opts=pulumi.ResourceOptions(parent=self))

    def _gpu_operator(self, ground: Ground) -> GpuOperator | None:
        wanted = installation(ground.stack)
        if wanted is None:
            return None
        return GpuOperator(
            "gpu-operator", wanted=wanted, ground=ground, opts=pulumi.ResourceOptions(parent=self)
        )

    def _autoscaler(self, ground: Ground) -> ClusterAutoscaler | None:
        """GKE has its own; in an existing cluster it is somebody else's."""
        if not isinstance(ground.stack.cluster, EksCluster):
            return None
        return ClusterAutoscaler(
            "autoscaler",
            cluster=ground.stack.cluster,
            ground=ground,
            # It looks for ProvisioningRequests when it starts.
            depends_on=[self.crds],
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _gang_admission(self, ground: Ground) -> GangAdmission | None:
        if ground.stack.gang_admission.mode is not GangMode.MUSTER:
            return None
        return GangAdmission(
            "gang-admission",
            ground=ground,
            # Its caches are of the scheduler's kinds: it comes up in one go when they are there.
            depends_on=[self.scheduler.serving],
            opts=pulumi.ResourceOptions(parent=self),
        )


def _crds(parent: pulumi.Resource, ground: Ground) -> Bundle:
    """What others look for once, when they start: Kueue for ProvisioningRequests, ours for its GangPolicy.

    GKE serves ProvisioningRequests itself. Kinds outlive their stack: with one, every object of it would go.
    """
    manifests = {"gangpolicies": text([crd()]), "queuetrees": text([queuetree.crd()])}
    if cloud_of(ground.stack.cluster) is not Provider.GKE:
        manifests["provisioningrequests"] = ground.artifacts.crd("provisioningrequests").read_text()
    kept = retains_crds(ground.stack.artifacts)
    opts = pulumi.ResourceOptions(parent=parent, provider=ground.bundles, retain_on_delete=kept)
    return Bundle("crds", manifests=manifests, opts=opts)
