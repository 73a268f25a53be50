"""Inputs shared by all components in a cluster: the stack, its artifacts, resource sizing and the two
providers.
"""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from muster.artifacts import upstream
from muster.artifacts.resolved import Artifacts
from muster.components.bundle import BundleProvider
from muster.components.clusters.cluster import MadeCluster
from muster.components.sizing import Sizing, sizing_of
from muster.model.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformContext:
    """Where and how a component is installed. `PlatformContext.of` fills in what follows from the others.

    `stack`: the description that the component is rendered from.
    `artifacts`: the charts, CRDs and images that it is installed from.
    `sizing`: requests, limits, replicas and the node pool of the control plane's pods.
    `provider`: makes objects one by one and Helm releases; `bundles`: makes many objects as one resource.
    Both have to reach the same cluster. Another cluster behind them replaces everything that was made with
    them.
    """

    stack: Stack
    artifacts: Artifacts
    sizing: Sizing
    provider: kubernetes.Provider
    bundles: BundleProvider

    @classmethod
    def of(
        cls,
        stack: Stack,
        cluster: MadeCluster,
        *,
        artifacts: Artifacts | None = None,
        sizing: Sizing | None = None,
    ) -> "PlatformContext":
        """The context of a cluster component. Artifacts and sizing follow from the stack unless they are
        given.
        """
        return cls(
            stack=stack,
            artifacts=artifacts or upstream.resolve_artifacts(stack, name=pulumi.get_stack()),
            sizing=sizing or sizing_of(stack),
            provider=cluster.kubernetes,
            bundles=cluster.bundles,
        )
