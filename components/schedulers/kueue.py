"""Kueue, from its own chart as one Helm release.

Responsible for the chart's values: image, sizes, nodes, configuration. One release, not a resource for each
of the chart's eighty objects: docs/decisions/001-resource-grain.md has the reason. Kueue's configuration is
the model's `manager_config`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from muster.components.bundle import Bundle, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext
from muster.components.existing_programs import deployments_of, refuse
from muster.components.gang_pods import Sizing
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.programs import Program
from muster.model.stack import Stack
from muster.render import kueue, observability
from muster.render.manifest import MANAGED_BY_LABEL, Manifest, manifest

_TIMEOUT = 300
_RBAC = "rbac.authorization.k8s.io"
# With an aggregationRule in templates/rbac of chart 0.19.2.
_GATHERED = ("kueue-batch-admin-role", "kueue-batch-user-role")


def install(name: str, context: PlatformContext, opts: pulumi.ResourceOptions) -> "Kueue | None":
    if not context.stack.installs(Program.KUEUE):
        return None
    return Kueue(name, KueueArgs(context=context), opts=opts)


def shared_objects(stack: Stack) -> dict[str, list[Manifest]]:
    found = {
        "flavors": kueue.flavors(stack),
        "topologies": kueue.topologies(stack),
        "admission-checks": kueue.admission_check(stack),
    }
    return {key: objects for key, objects in found.items() if objects}


def departments() -> str:
    return "cohorts"


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
