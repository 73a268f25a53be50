"""Kueue, from its own chart as one Helm release.

Decides the chart's values: image, sizes, nodes, configuration. One release, not a resource for each of the
chart's eighty objects: docs/decisions/001-resource-grain.md says why. What Kueue is told is the model's
`manager_config`.
"""

import json
from collections.abc import Mapping
from typing import Any

import pulumi

from muster.components.bundle import Bundle, find, text
from muster.components.charts import release
from muster.components.context import Ground
from muster.components.objects import KubernetesObject
from muster.components.schedulers.existing_kueue import SELECTOR, refuse
from muster.components.sizing import Footprint
from muster.model import names
from muster.model.stack import Stack
from muster.render import kueue
from muster.render.manifest import MANAGED_BY_LABEL, Manifest, manifest

_TIMEOUT = 300
_RBAC = "rbac.authorization.k8s.io"
# With an aggregationRule in templates/rbac of chart 0.19.2.
_GATHERED = ("kueue-batch-admin-role", "kueue-batch-user-role")


class Kueue(pulumi.ComponentResource):
    """`serving`: depend on it and Kueue's webhooks answer."""

    def __init__(
        self,
        name: str,
        *,
        ground: Ground,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:schedulers:Kueue", name, None, opts)
        self.namespace = KubernetesObject(
            f"{name}-namespace",
            manifest("v1", "Namespace", names.KUEUE_NAMESPACE),
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=depends_on),
        )
        found = find("apps/v1", "Deployment", SELECTOR, provider=ground.bundles)
        chart_values = values(ground.stack, image=ground.artifacts.image("kueue"), footprint=ground.footprint)
        self.release = release(
            name,
            ground.artifacts.chart("kueue"),
            namespace=names.KUEUE_NAMESPACE,
            # The values come out of the look at the cluster: without it nothing is installed.
            values=found.apply(lambda others: _unless_refused(others, chart_values)),
            timeout=_TIMEOUT,
            opts=pulumi.ResourceOptions(parent=self, provider=ground.provider, depends_on=[self.namespace]),
        )
        self.roles = Bundle(
            f"{name}-roles",
            manifests={"gathered": text(gathered_roles())},
            opts=pulumi.ResourceOptions(parent=self, provider=ground.bundles, depends_on=[self.release]),
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


def _unless_refused(others: list[Manifest], chart_values: Mapping[str, Any]) -> Mapping[str, Any]:
    refuse(others)
    return chart_values


def values(stack: Stack, *, image: str, footprint: Footprint) -> Mapping[str, Any]:
    """The chart's values. Its image is `repository:tag`, so a digest is split at its last colon."""
    repository, _, tag = image.rpartition(":")
    return {
        "controllerManager": {
            "manager": {
                "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
                "resources": footprint.kueue.resources(),
            },
            "nodeSelector": footprint.node_selector(),
            # A queue waits on Kueue's webhooks, so its start is in the way of everybody: look often.
            "readinessProbe": {"initialDelaySeconds": 2, "periodSeconds": 2},
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(kueue.manager_config(stack), indent=1)},
    }
