"""Karpenter on a local cluster: its kinds, what the cloud sells to it, and its process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from muster.local import karpenter
from muster.local.build.store import Artifacts
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.network import Kubectl
from muster.local.cluster.units import ReadinessGate, Unit
from muster.local.simulated_cloud import karpenter as cloud
from muster.local.simulated_cloud import names, offering
from muster.whole_file import write_whole

_PORT: Final = 10280  # of its metrics; the next one is its health's


def unit(cluster: LocalCluster, kubeconfig: Path, program: Path) -> Unit:
    """It starts when `offer` has written what is sold. Its settings are in the simulated cloud's namespace,
    because that writes the stock.
    """
    types = _types(cluster)
    options = karpenter.flags(types_file=str(types), metrics_port=_PORT, health_port=_PORT + 1)
    return Unit(
        karpenter.PROGRAM,
        (str(program), *options),
        after=ReadinessGate(file=types, api_ready=True),
        environment=karpenter.environment(str(kubeconfig), names.NAMESPACE),
    )


def define(kubectl: Kubectl, artifacts: Artifacts) -> None:
    kubectl.define(*(artifacts.assets[asset] for asset in karpenter.CRDS))


def offer(cluster: LocalCluster, pools: Path) -> None:
    sold = cloud.instance_types(offering.read(pools))
    write_whole(_types(cluster), karpenter.catalogue(sold).encode())


def _types(cluster: LocalCluster) -> Path:
    return cluster.run / "instance-types.json"
