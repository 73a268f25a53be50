"""Who queues and admits the work: Kueue and the KAI Scheduler, each from its own chart as one Helm release.

One release, not a resource for each of the chart's objects, of which Kueue has eighty:
docs/decisions/001-resource-grain.md has the reason. Kueue's configuration is the model's `manager_config`.
KAI's chart brings the CRDs and the operator, which makes a scheduler of every shard; its values are the
model's `chart_values`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from muster.components.component import Bundle, Component, immutable, text
from muster.components.context import KubernetesObject, PlatformContext
from muster.components.existing_programs import deployments_of, refuse
from muster.components.gang_pods import Sizing
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.programs import Program
from muster.model.stack import Stack
from muster.render import kai, kueue, observability
from muster.render.manifest import MANAGED_BY_LABEL, Manifest, manifest

_TIMEOUT = 300
_RBAC = "rbac.authorization.k8s.io"
# With an aggregationRule in templates/rbac of chart 0.19.2.
_GATHERED = ("kueue-batch-admin-role", "kueue-batch-user-role")


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueArgs:
    """`context`: the cluster, and the chart to install. Its stack decides Kueue's configuration: which kinds
    it queues, and how long admitted work may miss its pods.

    `image`: of Kueue's manager, by digest or tag, when it comes from another resource (a registry's cache,
    for example). None takes the image of the context's artifacts. Another release than the chart's is not
    tested.

    The chart's namespace and names are fixed: a cluster holds one Kueue. One that is found in another
    namespace or is too old is refused before anything is installed.
    """

    context: PlatformContext
    image: pulumi.Input[str] | None = None


class Kueue(Component):
    """`serving`: depend on it and Kueue's webhooks answer."""

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:schedulers:Kueue", name, opts)
        context = args.context
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.KUEUE_NAMESPACE),
            opts=self.child_options(provider=context.provider),
        )
        KubernetesObject(
            f"{name}-network",
            observability.reach(
                context.stack,
                "kueue",
                namespace=names.KUEUE_NAMESPACE,
                metrics=kueue.METRICS_PORT,
                open_to_all=[kueue.WEBHOOK_PORT, kueue.VISIBILITY_PORT],
            ),
            opts=self.child_options(provider=context.provider, after=[self.namespace]),
        )
        image = context.artifacts.image("kueue") if args.image is None else args.image
        found = pulumi.Output.all(others=deployments_of(Program.KUEUE, provider=context.bundles), image=image)
        self.release = release(
            name,
            context.artifacts.chart("kueue"),
            release_name="kueue",
            namespace=names.KUEUE_NAMESPACE,
            # The values are an output of the query: where it finds another Kueue nothing is installed.
            values=found.apply(lambda known: _unless_refused(known, context)),
            timeout=_TIMEOUT,
            opts=self.child_options(provider=context.provider, after=[self.namespace]),
        )
        self.roles = Bundle(
            f"{name}-roles",
            manifests={"gathered": text(gathered_roles())},
            opts=self.child_options(provider=context.bundles, after=[self.release]),
        )
        self.serving: pulumi.Resource = self.release
        self.register_outputs({})


def gathered_roles() -> list[Manifest]:
    """The roles of the chart that the controller manager gathers from others, named once more: they go before
    the release. Helm takes role after role away; on a busy cluster the controller manager then writes the
    gathered ones anew behind it (an apply makes what is gone), and Helm waits for their end until its time
    is over.
    """
    helms = {MANAGED_BY_LABEL: "Helm"}
    return [manifest(f"{_RBAC}/v1", "ClusterRole", role, labels=helms) for role in _GATHERED]


def _unless_refused(known: Mapping[str, Any], context: PlatformContext) -> Mapping[str, Any]:
    refuse(Program.KUEUE, known["others"], installs=True)
    return values(context.stack, image=known["image"], sizing=context.sizing)


def values(stack: Stack, *, image: str, sizing: Sizing) -> Mapping[str, Any]:
    """The chart's values. Its image is `repository:tag`, so a digest is split at its last colon."""
    repository, _, tag = image.rpartition(":")
    copies = any(kind.serves for kind in stack.work_kinds)
    return {
        # Kueue copies the queue and the priority of a set into its pod templates. What our webhook has filled
        # in would be copied by the next change, which then replaces all pods.
        **({"mutatingWebhook": {"reinvocationPolicy": "IfNeeded"}} if copies else {}),
        "controllerManager": {
            "manager": {
                "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
                "resources": sizing.kueue.resources(),
            },
            "nodeSelector": sizing.node_selector(),
            # Every queue waits for Kueue's webhooks, so probe their start often.
            "readinessProbe": {"initialDelaySeconds": 2, "periodSeconds": 2},
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(kueue.manager_config(stack), indent=1)},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiArgs:
    """`context`: the cluster, and the chart to install. Its stack's `kai` section sets shards, GPU sharing
    and topologies; a topology whose levels change is replaced, and work that names it waits meanwhile.

    KAI replaces the scheduler of the pods that name it. The chart's namespace and names are fixed: a cluster
    holds one KAI. With `kai.install` false in the stack the operator is the cluster's own, and only shards
    and topologies are made. A local cluster runs KAI's programs itself (`muster local up --scheduler kai`).
    """

    context: PlatformContext


class Kai(Component):
    """`serving`: depend on it and Queues are accepted and a scheduler acts on them."""

    def __init__(self, name: str, args: KaiArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:schedulers:Kai", name, opts)
        context = args.context
        before = [self._release(name, context)] if context.stack.installs(Program.KAI) else None
        child = self.child_options(provider=context.bundles, after=before)
        # The labels of a topology's levels are immutable.
        self.topologies = [
            Bundle(
                f"{name}-topology-{each['metadata']['name']}",
                manifests={each["metadata"]["name"]: text([each])},
                opts=immutable(child),
            )
            for each in kai.topologies(context.stack)
        ]
        self.shards = Bundle(
            f"{name}-shards", manifests={"shards": text(kai.shards(context.stack))}, opts=child
        )
        self.serving: pulumi.Resource = self.shards
        self.register_outputs({})

    def _release(self, name: str, context: PlatformContext) -> pulumi.Resource:
        namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.KAI_NAMESPACE),
            opts=self.child_options(provider=context.provider),
        )
        values = kai.chart_values(
            context.stack,
            node_selector=context.sizing.node_selector(),
            replicas=context.sizing.manager_replicas,
        )
        return release(
            name,
            context.artifacts.chart("kai"),
            release_name="kai",
            namespace=names.KAI_NAMESPACE,
            values=values,
            opts=self.child_options(provider=context.provider, after=[namespace]),
        )
