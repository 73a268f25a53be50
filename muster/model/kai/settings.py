"""The settings of KAI for the whole stack (`muster:kai`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster.model.kai.shard import ShardSettings
from muster.model.kai.topology import Topology


class Sharding(StrEnum):
    """one: one scheduler and one Queue a team. per-pool: a scheduler and a Queue a team for every pool, so
    that quotas of two GPU pools stay apart; a gang then runs in one pool, its head included.
    """

    ONE = "one"
    PER_POOL = "per-pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiSettings:
    """`sharding` None: one where there is at most one GPU pool, per-pool otherwise.

    `gpu_sharing` lets pods ask for a part of a GPU (`gpu-fraction`); nothing keeps such pods out of each
    other's GPU memory. `cluster_autoscaling` makes pods with a part of a GPU visible to an autoscaler; whole
    GPUs need nothing of the kind. `pools` are shards that differ from `shard`. `install` false: the cluster
    has its own KAI operator; shards and queues are still made.
    """

    install: bool = True
    sharding: Sharding | None = None
    gpu_sharing: bool = False
    cluster_autoscaling: bool = False
    shard: ShardSettings = field(default_factory=ShardSettings)
    pools: Mapping[str, ShardSettings] = field(default_factory=lambda: MappingProxyType({}))
    topologies: tuple[Topology, ...] = ()
