"""The settings of KAI for the whole stack (`muster:kai`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.model.kai.shard import ShardSettings
from muster.model.kai.topology import Topology
from muster.model.keys import declared


class Sharding(StrEnum):
    """one: one scheduler and one Queue a team. per-pool: a scheduler and a Queue a team for every pool, so
    that quotas of two GPU pools stay apart; a gang then runs in one pool, its head included.
    """

    ONE = "one"
    PER_POOL = "per-pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiSettings:
    """`install` false: the cluster has its own KAI operator; shards and queues are still made."""

    install: bool = declared("Whether Muster installs KAI; false where the cluster has it.", True)
    sharding: Sharding | None = declared(
        "One scheduler for all pools, or one for each.",
        None,
        default_text="one where there is at most one GPU pool, per-pool otherwise",
    )
    gpu_sharing: bool = declared(
        "Whether pods may request a part of a GPU; its memory is not isolated.", False
    )
    cluster_autoscaling: bool = declared(
        "Whether an autoscaler sees pods that wait for a part of a GPU.", False
    )
    shard: ShardSettings = declared(
        "Settings of the schedulers.", {}, factory=ShardSettings, definition="kaiShard"
    )
    pools: Mapping[str, ShardSettings] = declared(
        "A pool's own scheduler, in place of `shard`.",
        {},
        definition="kaiShard",
        example={"l4": {"placementStrategy": {"gpu": "spread"}}},
    )
    topologies: tuple[Topology, ...] = declared(
        "Node labels that describe how close two nodes are.",
        (),
        example={"racks": {"levels": [{"nodeLabel": "example.com/rack"}]}},
    )
