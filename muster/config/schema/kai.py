"""The schema of `muster:kai`, and of `kai:` of a team or department, named as in KAI's documentation."""

from typing import Final

from muster.config import bounds
from muster.config.schema.kinds import (
    Schema,
    by_name,
    duration,
    either,
    integer,
    key,
    mapping,
    quantity,
    text,
)
from muster.config.schema.writer import schema
from muster.model.kai import DEFAULT_QUEUE_PRIORITY, UNLIMITED, KaiSettings, ShardSettings

_LIKE_OTHERS: Final = "that of the shard"


def definitions() -> dict[str, Schema]:
    return {"kaiShard": schema(ShardSettings)}


def settings() -> Schema:
    return schema(KaiSettings)


def queue() -> Schema:
    pool = mapping(_shares())
    return mapping(
        {
            "queue": key(
                "The name of its Queue; `none` for a department without one, whose teams are a level higher. "
                "Where each pool has a Queue, the pool's name is appended.",
                text(),
                otherwise="its name",
                example="team.a",
            ),
            "displayName": key("Its name in KAI's user interface.", text(), example="Vision"),
            "priority": key(
                "Queues with a higher priority get capacity beyond all quotas first.",
                integer(),
                otherwise=str(DEFAULT_QUEUE_PRIORITY),
                example=110,
            ),
            "preemptMinRuntime": key(
                "How long work runs before work of its own queue may preempt it.",
                duration(),
                otherwise=_LIKE_OTHERS,
                example="10m",
            ),
            "reclaimMinRuntime": key(
                "How long work runs before other queues may reclaim its capacity.",
                duration(),
                otherwise=_LIKE_OTHERS,
                example="10m",
            ),
            **_shares(),
            "pools": key(
                "The figures of each pool's queue, where each pool has one.",
                by_name(pool),
                example={"l4": {"gpu": {"limit": 8}}},
            ),
        }
    )


def _shares() -> dict[str, Schema]:
    names = {"gpu": "GPUs", "cpu": "CPU", "memory": "Memory"}
    return {name: key(f"{noun} of the queue.", _share()) for name, noun in names.items()}


def _share() -> Schema:
    figure = either(quantity(), {"const": UNLIMITED.value})
    return mapping(
        {
            "quota": key(
                "What is guaranteed.", figure, otherwise="from the quota of the team or department", example=4
            ),
            "limit": key(
                "The most in all, quota included.",
                figure,
                otherwise="from `quota` and `borrow`",
                example=UNLIMITED.value,
            ),
            "overQuotaWeight": key(
                "Its share of what is free beyond all quotas.",
                integer(**bounds.SHARE),
                otherwise="from `weight`",
                example=2,
            ),
        }
    )


SHARD_KEYS: Final = tuple(schema(ShardSettings)["properties"])
"""The keys of `shard`."""
