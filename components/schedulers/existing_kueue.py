"""Whether a Kueue that a cluster already has can be left where it is, or has to go first. Pure.

Two Kueues in one cluster answer the same webhooks and write the same Workloads. And what Muster writes is
v1beta2 as 0.19 has it: older releases drop fields that they do not know without a word, and those before 0.16
store v1beta1, in which queues would lose their cohorts.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from muster.model import names

# How its Deployment is found, installed by the chart or by its plain manifests.
SELECTOR = "app.kubernetes.io/name=kueue,control-plane=controller-manager"
_OLDEST = (0, 19)
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?")


class IncompatibleKueueError(pulumi.RunError):
    """The cluster's Kueue is in the way; the message says which, why, and what to do."""


def refuse(deployments: Iterable[Mapping[str, Any]]) -> None:
    """Raises IncompatibleKueueError unless what is found is the one that Muster installs, not too old to be
    upgraded.
    """
    for deployment in deployments:
        namespace = deployment["metadata"]["namespace"]
        version = version_of(deployment)
        told = ".".join(map(str, version)) if version else "of unknown version"
        if namespace != names.KUEUE_NAMESPACE:
            raise IncompatibleKueueError(
                f"the cluster has another Kueue ({told}) in namespace {namespace}: two would answer the "
                f"same webhooks. Remove it with what installed it, then run this again; queues and jobs stay."
            )
        if version is None or version < _OLDEST:
            wanted = ".".join(map(str, _OLDEST))
            raise IncompatibleKueueError(
                f"the cluster has Kueue {told} in namespace {namespace}; Muster needs {wanted} or newer: it "
                "writes that release's API, and older ones drop what they do not know. Upgrade it "
                "(docs/upgrades.md), or remove it and let Muster install its own."
            )


def version_of(deployment: Mapping[str, Any]) -> tuple[int, int] | None:
    """From the chart's label, or from the tag of its image."""
    label = deployment["metadata"].get("labels", {}).get("app.kubernetes.io/version", "")
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    tags = [str(each.get("image", "")).partition("@")[0].rpartition(":")[2] for each in containers]
    for text in (label, *tags):
        match = _VERSION.fullmatch(text)
        if match:
            return int(match[1]), int(match[2])
    return None
