"""What every provider's cluster answers; and the system pool of the clusters that Muster makes.

The system pool has the nodes of Kueue, KubeRay, the GPU Operator's controllers and Muster's own. It is
separate from all pools of work, so that no job can evict them, and it has no GPU.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple

from muster.model.keys import Schema, SchemaWriter, declared, read
from muster.model.machines import MACHINES, Machine, machines_of, similar_machines
from muster.model.pools import Pool
from muster.model.regions import NodeCloud, Provider
from muster.model.section import Section
from muster.model.violations import suggestion


class NameForm(NamedTuple):
    """What a cloud takes for a name, and the words that say so."""

    pattern: re.Pattern[str]
    noun: str
    example: str = ""


class AnyCluster:
    """The questions whose answers differ from provider to provider. An answer that stands here is that of a
    provider whose class says nothing else.
    """

    __slots__ = ()

    provider: ClassVar[Provider]
    is_ours: ClassVar[bool] = True
    """Whether Muster makes it."""
    IDENTITY: ClassVar[NameForm]
    """What pods act as."""
    BUCKET: ClassVar[NameForm]
    FOREIGN_LABELS: ClassVar[tuple[str, ...]] = ()
    """What labels begin with that none of its nodes has, unless the stack writes it."""
    ANSWERS: ClassVar[StrEnum]
    """The autoscaler that answers ProvisioningRequests."""
    # Settings that only some have.
    autoscaler: StrEnum
    cloud: NodeCloud | None = None
    context: str | None = None
    kubeconfig: str | None = None
    project: str = ""
    protect: bool = False
    region: str = ""
    version: str | None = None
    zone: str | None = None
    zones: tuple[str, ...] = ()

    @property
    def answers_requests(self) -> bool:
        """Whether a ProvisioningRequest is ever answered there."""
        return self.autoscaler is self.ANSWERS

    @property
    def makes_nodes_for_pods(self) -> bool:
        """Whether nodes come one by one, as pods ask."""
        return not self.answers_requests

    @property
    def has_karpenter(self) -> bool:
        return self.autoscaler == "karpenter"

    @property
    def is_auto(self) -> bool:
        """Whether EKS Auto Mode makes the nodes, those of the system pool included."""
        return False

    @property
    def has_compute_classes(self) -> bool:
        """Whether GKE makes nodes, and node pools, for pods that select a ComputeClass."""
        return False

    @property
    def takes_autoscaler(self) -> bool:
        """Whether Muster installs cluster-autoscaler."""
        return False

    @property
    def has_driver_installer(self) -> bool:
        """Whether Google's installer DaemonSet brings the GPU driver."""
        return False

    @property
    def has_default_class(self) -> bool:
        """Whether a volume that names no StorageClass becomes a disk, which one node mounts."""
        return True

    @property
    def has_extended_support(self) -> bool:
        return False

    @property
    def own_labels(self) -> tuple[str, ...]:
        """The cloud's labels that every pool is known to have or not to have."""
        return ()

    def known_labels(self, pool: Pool) -> dict[str, str]:
        """Further labels of its nodes, which no flavor has to have; several values are joined by commas."""
        return {}

    @property
    def traits(self) -> frozenset[str]:
        """What known issues may wait for (known_issues.py)."""
        return frozenset({self.provider.value, self.autoscaler.value})

    def image_address(self, account: Callable[[], str] = str) -> str | None:
        """`host/path` of the controller's image. `account` asks for the AWS account, which no stack file
        contains. None for an existing cluster: its owner names a registry.
        """
        return None

    def zones_of(self, pool: Pool) -> tuple[str, ...]:
        """The zones of its nodes; empty where the cloud chooses them, or nothing is known of its nodes."""
        return pool.zones

    def group_sizes(self, pool: Pool) -> dict[str, tuple[int, int]]:
        """Zone -> least and most nodes of the pool's node group there, on EKS."""
        return {}

    def group_names(self, pool: Pool) -> list[str]:
        return []

    def cloud_labels(self, pool: Pool) -> dict[str, str]:
        """Those that the cloud gives to its nodes and that people select, the most used first."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPool:
    """Two nodes by default, so that the replicas of a component can be on different nodes. `min_nodes` may be
    0 where the autoscaler runs outside of the cluster (GKE).
    """

    machine: Machine
    min_nodes: int = declared("Minimum number of nodes, over all zones; 0 only on GKE.", 2, maximum=100)
    max_nodes: int = declared("Maximum number of nodes, over all zones.", 6, minimum=1, maximum=1000)


def declared_system_pool(provider: Provider, machine: str) -> Any:
    """The field of a cluster, whose nodes are `machine` by default."""
    return declared(
        "The nodes of Kueue, KubeRay and the other controllers.",
        {},
        factory=lambda: SystemPool(machine=MACHINES[machine]),
        read=partial(_read_system_pool, provider, machine),
        schema=partial(_schema, provider, machine),
    )


def _read_system_pool(provider: Provider, default: str, cluster: Section, key: str) -> SystemPool:
    section = cluster.section(key)
    known = machines_of(provider)
    name = section.text("machine") or default
    if name not in known:
        message = f"{name!r} is not in the machine table of provider {provider}."
        near = similar_machines(name, known)
        listed = "choose one that it has: `muster explain cluster.systemPool.machine` lists them."
        section.note("machine", message, suggestion(name, near, noun="machine") if near else listed)
    pool = read(SystemPool, section, machine=known.get(name, known[default]))
    return pool or SystemPool(machine=known[default])


def _schema(provider: Provider, default: str, writer: SchemaWriter) -> Schema:
    machine = {
        "type": "string",
        "enum": sorted(machines_of(provider)),
        "description": f"The machine type. Default: {default}.",
        "default": default,
        "examples": [default],
    }
    pool = writer.of_class(SystemPool)
    return {**pool, "properties": {"machine": machine, **pool["properties"]}}
