"""What a component of the cluster stands on: its stack, its artifacts, its size, its two providers.

Decides nothing. The platform (platform.py) makes one for all components that need most of it; one that needs
two of these is given the two.
"""

from dataclasses import dataclass

import pulumi_kubernetes as kubernetes

from muster.artifacts.resolved import Artifacts
from muster.components.bundle import BundleProvider
from muster.components.sizing import Footprint
from muster.model.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """`provider` makes objects one by one and Helm releases, `bundles` many objects at once."""

    stack: Stack
    artifacts: Artifacts
    footprint: Footprint
    provider: kubernetes.Provider
    bundles: BundleProvider
