"""The platform: everything that a stack puts into its cluster. The only place that knows the order.

CRDs are served before the programs that look for them; programs answer before the objects that they judge
exist; teams are created last and deleted first, while Kueue, KubeRay and the controller can release their
finalizers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pulumi

from muster.artifacts.resolved import Artifacts
from muster.components import existing_programs
from muster.components import gang_pods as pods
from muster.components.bundle import Bundle, BundleProvider, text
from muster.components.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from muster.components.clusters.cloud import Provisioning
from muster.components.clusters.cluster import ClusterInputs, cluster_of
from muster.components.component import Component
from muster.components.context import Identities, IdentitiesArgs, KubernetesObject, PlatformContext, child
from muster.components.efa_device_plugin import EfaDevicePlugin, EfaDevicePluginArgs
from muster.components.gang_admission import GangAdmission, GangAdmissionArgs
from muster.components.gang_pods import Sizing
from muster.components.gpu_operator import GpuOperator, GpuOperatorArgs, crd_manifests
from muster.components.karpenter import Karpenter, KarpenterArgs
from muster.components.kuberay import KubeRay, KubeRayArgs
from muster.components.queues import Priorities, PrioritiesArgs, Queues, QueuesArgs, Tenancy, TenancyArgs
from muster.components.recorder import Recorder, RecorderArgs
from muster.components.schedulers import ROOMS
from muster.components.schedulers.kai import Kai
from muster.components.schedulers.kueue import Kueue
from muster.model.clusters import EksCluster
from muster.model.gpu_operator import installation
from muster.model.stack import GangMode, Stack, retains_crds
from muster.render import network_probe, observability, queuetree

# Monitors, alerts and a dashboard for Muster itself, where the stack asks for them.
# The controller serves its metrics in any case; which pods may reach them is set beside its own pods
# (gang_admission.py).

_TYPE: Final = "muster:index:Observability"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityArgs:
    """`stack`: its `observability` section. The kinds of monitors and alerts are the Prometheus operator's or
    Google's: without them in the cluster, `up` fails.

    `provider`: the cluster that gets the objects. They are made in Muster's own namespace: name what makes
    that (`GangAdmission.namespace`) in `opts.depends_on`.
    """

    stack: Stack
    provider: BundleProvider


class Observability(Component):
    """`objects` is None where the stack asks for no monitors, alerts or dashboard."""

    def __init__(
        self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(_TYPE, name, opts)
        wanted = observability.objects(args.stack, selector=pods.BOTH, port=pods.HEALTH_PORT_NAME)
        self.objects = (
            Bundle(
                name,
                manifests={key: text(manifests) for key, manifests in wanted.items()},
                opts=self.child_options(provider=args.provider),
            )
            if wanted
            else None
        )
        self.register_outputs({})


# Tries once, with two pods, whether the cluster's network enforces NetworkPolicies.
# The Job is done when the policy was seen to be enforced, and fails otherwise: `pulumi up` waits for it, and
# ends there. It stays as the record of it, without a pod that runs; another image makes it anew.


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkProbeArgs:
    """`context`: the cluster to try. `image`: of the controller, as for GangAdmission, whose namespace has to
    be there: name it in `opts.depends_on`.
    """

    context: PlatformContext
    image: pulumi.Input[str] | None = None


class NetworkProbe(Component):
    """`passed`: depend on it and the network enforces NetworkPolicies."""

    def __init__(self, name: str, args: NetworkProbeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:NetworkProbe", name, opts)
        context = args.context
        image = context.artifacts.image("gang-admission") if args.image is None else args.image
        *around, job = network_probe.objects(image=image, node_selector=context.sizing.node_selector())
        before = [child(self, body, provider=context.provider) for body in around]
        self.passed: KubernetesObject = child(self, job, provider=context.provider, after=before)
        self.register_outputs({})


# The ComputeClasses of a GKE cluster that makes its node pools by itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeClassesArgs:
    """`context`: the cluster, which serves the kind. `provisioning`: of the cluster's component. GKE ends the
    nodes of a class that leaves when no pod needs them.
    """

    context: PlatformContext
    provisioning: Provisioning


class ComputeClasses(Component):
    """`serving`: depend on it and pending pods get nodes."""

    def __init__(
        self, name: str, args: ComputeClassesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ComputeClasses", name, opts)
        self.serving = Bundle(
            f"{name}-nodes",
            manifests={"nodes": args.provisioning.objects},
            opts=self.child_options(provider=args.context.bundles),
        )
        self.register_outputs({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformArgs:
    """`stack`: the whole description, read by `muster.config.load` or built in code. It decides which
    resources exist, so it is a plain value. A team that is taken out of it loses its namespace and everything
    in it; a pool is deleted with its nodes. Code that builds a stack should check it with
    `muster.validation`: the component makes what it describes and refuses only what cannot be made.

    `artifacts`: charts, CRDs and images. None takes what the stack's `artifacts`, `charts` and `images` name.

    `cluster`: values of the cluster that come from other resources: an existing VPC, a key, a kubeconfig.

    `image`: the controller's image, when it comes from another resource. None takes the stack's `image`.

    `sizing`: requests, replicas and node pool of the control plane. None takes those that fit the stack.
    """

    stack: Stack
    artifacts: Artifacts | None = None
    cluster: ClusterInputs = field(default_factory=ClusterInputs)
    image: pulumi.Input[str] | None = None
    sizing: Sizing | None = None


class Platform(Component):
    """A cluster with scheduler, KubeRay, GPU Operator, gang admission, tenancy, and the queues of every team.

    The instance named `muster` gives its children the names that Muster's own program gives them, so a stack
    can move from that program to one of your own without a change. Any other instance puts its name in front.

    Output: `queueNames` maps each team to the queue that its work names, known when all queues exist. Your
    own objects that need the queues name `platform.queues` in `depends_on`. `teams` maps each team to what
    its jobs have to carry: namespace, queues with their labels, and priorities.
    """

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:Platform", name, opts, short_name="muster")
        stack = args.stack
        self.cluster = cluster_of(
            stack,
            name=self.child_name(stack.cluster.name),
            inputs=args.cluster,
            opts=self.child_options(),
        )
        bundles = self.cluster.bundles
        context = PlatformContext.of(stack, self.cluster, artifacts=args.artifacts, sizing=args.sizing)
        # Everything in the cluster comes after the CRDs, and they come after a look at what is there already.
        # Auto Mode has its own CRDs, and makes the nodes of everything.
        self.nodes: Karpenter | ComputeClasses | None = self._auto_mode(context)
        self.crds = self._crds(context, after=[] if self.nodes is None else [self.nodes.serving])
        self.nodes = self.nodes or self._karpenter(context) or self._compute_classes(context)
        self.scheduler = self._scheduler(context)
        self.autoscaler = self._autoscaler(context)
        self.kuberay = KubeRay(
            self.child_name("kuberay"),
            KubeRayArgs(context=context),
            opts=self.child_options(after=[self.crds]),
        )
        self.gpu_operator = self._gpu_operator(context)
        self.efa = self._efa(context)
        scheduling = self._scheduling()
        # A team's pods go before the nodes that Karpenter made for them.
        serving = [scheduling, self.kuberay.serving, *([self.nodes.serving] if self.nodes else [])]
        self.gang_admission = self._gang_admission(context, args.image)
        self.watching: Observability | None = None
        self.recorder: Recorder | None = None
        if self.gang_admission is not None:
            serving += self.gang_admission.serving
            self.watching = Observability(
                self.child_name("observability"),
                ObservabilityArgs(stack=stack, provider=bundles),
                opts=self.child_options(after=[self.gang_admission.namespace]),
            )
            self.recorder = self._recorder(context, self.gang_admission, args.image)
        self.priorities = Priorities(
            self.child_name("priorities"),
            PrioritiesArgs(stack=stack, provider=bundles),
            opts=self.child_options(after=[scheduling]),
        )
        self.tenancy = Tenancy(
            self.child_name("tenancy"),
            TenancyArgs(stack=stack, provider=bundles),
            opts=self.child_options(after=serving),
        )
        self.identities = Identities(
            self.child_name("identities"),
            IdentitiesArgs(stack=stack, cloud=self.cluster.cloud),
            opts=self.child_options(),
        )
        self.queues = Queues(
            self.child_name("queues"),
            QueuesArgs(
                stack=stack,
                provider=bundles,
                identities=self.identities.of_teams,
                dry_runs=queuetree.dry_runs(stack),
            ),
            opts=self.child_options(
                after=[
                    *self.priorities.classes,
                    self.tenancy.in_force,
                    *self._network_probe(context, args.image),
                ]
            ),
        )
        self.queue_names = self.queues.queue_names
        teams = {team: each.output() for team, each in queuetree.submissions(stack).items()}
        # Known when the queues are: what they say is accepted then.
        self.teams: pulumi.Output[Mapping[str, Any]] = self.queue_names.apply(lambda _: teams)
        self.register_outputs({"queueNames": self.queue_names})

    def _crds(self, context: PlatformContext, *, after: Sequence[pulumi.Resource]) -> Bundle:
        """CRDs outlive their stack: deleting one deletes all of its objects."""
        fits = existing_programs.check(context.stack, provider=context.bundles)
        kept = pulumi.ResourceOptions(retain_on_delete=retains_crds(context.stack.artifacts))
        opts = pulumi.ResourceOptions.merge(self.child_options(provider=context.bundles, after=after), kept)
        checked = {
            key: fits.apply(partial(_unchanged, content)) for key, content in crd_manifests(context).items()
        }
        return Bundle(self.child_name("crds"), manifests=checked, opts=opts)

    def _scheduling(self) -> pulumi.Resource:
        """What to depend on for a scheduler that serves; one that was left out serves already."""
        return self.crds if self.scheduler is None else self.scheduler.serving

    def _scheduler(self, context: PlatformContext) -> Kueue | Kai | None:
        scheduler, opts = context.stack.scheduler, self.child_options(after=[self.crds])
        return ROOMS[scheduler].install(self.child_name(scheduler.value), context, opts)

    def _gpu_operator(self, context: PlatformContext) -> GpuOperator | None:
        if installation(context.stack) is None:
            return None
        return GpuOperator(
            self.child_name("gpu-operator"),
            GpuOperatorArgs(context=context),
            opts=self.child_options(after=[self.crds]),
        )

    def _efa(self, context: PlatformContext) -> EfaDevicePlugin | None:
        """In an existing cluster it is not Muster's to install."""
        pools = [pool.name for pool in context.stack.pools if pool.efa]
        if not pools or not context.stack.cluster.is_ours:
            return None
        return EfaDevicePlugin(
            self.child_name("efa"),
            EfaDevicePluginArgs(context=context, pools=pools),
            opts=self.child_options(),
        )

    def _auto_mode(self, context: PlatformContext) -> Karpenter | None:
        return self._provisioned(context, after=[]) if context.stack.cluster.is_auto else None

    def _compute_classes(self, context: PlatformContext) -> ComputeClasses | None:
        provisioning = self.cluster.provisioning
        if not context.stack.cluster.has_compute_classes or provisioning is None:
            return None
        return ComputeClasses(
            self.child_name("compute-classes"),
            ComputeClassesArgs(context=context, provisioning=provisioning),
            opts=self.child_options(),
        )

    def _karpenter(self, context: PlatformContext) -> Karpenter | None:
        return self._provisioned(context, after=[self.crds]) if context.stack.cluster.has_karpenter else None

    def _provisioned(self, context: PlatformContext, *, after: Sequence[pulumi.Resource]) -> Karpenter | None:
        cluster, provisioning = context.stack.cluster, self.cluster.provisioning
        if not isinstance(cluster, EksCluster) or provisioning is None:
            return None
        return Karpenter(
            self.child_name("karpenter"),
            KarpenterArgs(context=context, cluster=cluster, provisioning=provisioning),
            opts=self.child_options(after=after),
        )

    def _autoscaler(self, context: PlatformContext) -> ClusterAutoscaler | None:
        """GKE has its own; in an existing cluster it is not Muster's to install."""
        cluster = context.stack.cluster
        if not cluster.takes_autoscaler:
            return None
        return ClusterAutoscaler(
            self.child_name("autoscaler"),
            ClusterAutoscalerArgs(context=context, cluster_name=cluster.name, region=cluster.region),
            # It looks for ProvisioningRequests when it starts.
            opts=self.child_options(after=[self.crds]),
        )

    def _gang_admission(
        self, context: PlatformContext, image: pulumi.Input[str] | None
    ) -> GangAdmission | None:
        if context.stack.gang_admission.mode is not GangMode.MUSTER:
            return None
        return GangAdmission(
            self.child_name("gang-admission"),
            GangAdmissionArgs(context=context, image=image),
            # Its caches hold the scheduler's kinds: it becomes ready at once when they are served.
            opts=self.child_options(after=[self._scheduling()]),
        )

    def _recorder(
        self, context: PlatformContext, admission: GangAdmission, image: pulumi.Input[str] | None
    ) -> Recorder | None:
        if not context.stack.recording.enabled:
            return None
        return Recorder(
            self.child_name("recorder"),
            RecorderArgs(context=context, image=image),
            opts=self.child_options(after=[self._scheduling(), admission.namespace, admission.priority]),
        )

    def _network_probe(
        self, context: PlatformContext, image: pulumi.Input[str] | None
    ) -> list[pulumi.Resource]:
        """What the teams wait for where the stack wants the network tried."""
        if self.gang_admission is None or not context.stack.tenancy.network_probe:
            return []
        admission = self.gang_admission
        probe = NetworkProbe(
            self.child_name("network-probe"),
            NetworkProbeArgs(context=context, image=image),
            opts=self.child_options(after=[admission.namespace, admission.priority]),
        )
        return [probe.passed]


def _unchanged(content: str, _: None) -> str:
    return content
