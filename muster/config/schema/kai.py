"""The schema of `muster:kai`, and of `kai:` of a team or department, named as in KAI's documentation."""

from typing import Final

from muster.config import bounds
from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    defined,
    duration,
    each,
    either,
    flag,
    integer,
    key,
    mapping,
    number,
    quantity,
    text,
    word,
)
from muster.model.kai import DEFAULT_QUEUE_PRIORITY, UNLIMITED, KaiSettings, Placement, Sharding, Strategy

_LIKE_OTHERS: Final = "that of the shard"


def definitions() -> dict[str, Schema]:
    return {"kaiShard": _shard()}


def settings() -> Schema:
    known = KaiSettings()
    return mapping(
        {
            "install": key(
                "Whether Muster installs KAI; false where the cluster has it.", flag(), default=known.install
            ),
            "sharding": key(
                "One scheduler for all pools, or one for each.",
                choice(Sharding),
                otherwise="one where there is at most one GPU pool, per-pool otherwise",
            ),
            "gpuSharing": key(
                "Whether pods may request a part of a GPU; its memory is not isolated.",
                flag(),
                default=known.gpu_sharing,
            ),
            "clusterAutoscaling": key(
                "Whether an autoscaler sees pods that wait for a part of a GPU.",
                flag(),
                default=known.cluster_autoscaling,
            ),
            "shard": key("Settings of the schedulers.", defined("kaiShard")),
            "pools": key(
                "A pool's own scheduler, in place of `shard`.",
                by_name(defined("kaiShard")),
                example={"l4": {"placementStrategy": {"gpu": "spread"}}},
            ),
            "topologies": key(
                "Node labels that describe how close two nodes are.",
                by_name(_topology()),
                example={"racks": {"levels": [{"nodeLabel": "example.com/rack"}]}},
            ),
        }
    )


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


def _shard() -> Schema:
    known = Placement()
    placement = {
        name: key(f"How {noun} work is placed.", choice(Strategy), default=strategy.value)
        for name, noun, strategy in (("gpu", "GPU", known.gpu), ("cpu", "CPU", known.cpu))
    }
    runtimes = {
        "preemptMinRuntime": key("Before work of the same queue preempts it.", duration(), example="5m"),
        "reclaimMinRuntime": key("Before other queues reclaim its capacity.", duration(), example="10m"),
    }
    return mapping(
        {
            "placementStrategy": key("Whether nodes are filled one after another.", mapping(placement)),
            "minRuntime": key("How long work runs before it can be evicted.", mapping(runtimes)),
            "kValue": key(
                "How strongly past use counts when free capacity is divided.", number(), example=1.5
            ),
            "args": key("Arguments of the scheduler.", by_name(word()), example={"v": 3}),
            "actions": key(
                "The scheduler's actions, by name.",
                by_name(_action()),
                example={"consolidation": {"enabled": False}},
            ),
            "plugins": key(
                "The scheduler's plugins, by name.",
                by_name(_plugin()),
                example={"proportion": {"priority": 7}},
            ),
            "queueDepthPerAction": key(
                "How many jobs of a queue an action looks at.",
                by_name(integer(least=1)),
                example={"preempt": 15},
            ),
            "goMemLimit": key("The memory limit of the scheduler's Go runtime.", quantity(), example="6Gi"),
            "goMemLimitRatio": key(
                "The same as a part of its container's limit.", number(least=0.01, most=1), example=0.8
            ),
            "scenarioSearchBudgets": key(
                "How long one round looks for work to evict (alpha in KAI).", _budgets()
            ),
            "usageDBConfig": key("Where past use is read.", _usage()),
        }
    )


def _action() -> Schema:
    return mapping(
        {
            "enabled": key("Whether it runs.", flag()),
            "priority": key("When it runs: higher ones first.", integer(), example=600),
        }
    )


def _plugin() -> Schema:
    return mapping(
        {
            "enabled": key("Whether it runs.", flag()),
            "priority": key("When it runs: higher ones first.", integer(), example=600),
            "arguments": key(
                "Its arguments, in place of all of its own.", by_name(word()), example={"kValue": 1.5}
            ),
        }
    )


def _budgets() -> Schema:
    return mapping(
        {
            "maxActionSearchDuration": key(
                "The longest search of an action, by its name.",
                by_name(duration()),
                example={"default": "10s"},
            ),
            "maxGeneratorSearchDuration": key(
                "The longest search of a generator, by its name.",
                by_name(duration()),
                example={"default": "5s"},
            ),
            "maxJobSearchDuration": key("The longest search for one job.", duration(), example="2s"),
            "minJobSearchDuration": key("The shortest search for one job.", duration(), example="1s"),
        }
    )


def _usage() -> Schema:
    params = mapping(
        {
            "windowSize": key("How far back, as Prometheus writes it: 1w2d.", text(), example="1w"),
            "windowType": key("The kind of window.", text(), example="sliding"),
            "tumblingWindowStartTime": key(
                "The start of a tumbling window, as in RFC 3339.", text(), example="2026-01-01T00:00:00Z"
            ),
            "cronString": key("When a cron window begins.", text(), example="0 0 1 * *"),
            "halfLifePeriod": key("After this time past use counts half.", duration(), example="24h"),
            "fetchInterval": key("How often use is read.", duration(), example="1m"),
            "stalenessPeriod": key("How long a reading counts.", duration(), example="5m"),
            "waitTimeout": key("How long to wait for an answer.", duration(), example="30s"),
            "extraParams": key(
                "Further parameters of the client.", by_name(word()), example={"serverTimeout": "30s"}
            ),
        }
    )
    return mapping(
        {
            "clientType": key("The kind of database.", text(), example="prometheus"),
            "connectionStringEnvVar": key(
                "The environment variable of the scheduler that has the address.",
                text(),
                example="PROMETHEUS_URL",
            ),
            "usageParams": key("How past use is counted.", params),
        },
        required=("clientType",),
    )


def _topology() -> Schema:
    level = mapping(
        {
            "nodeLabel": key("The label of nodes.", text(), example="example.com/rack"),
            "alias": key("A name that work may use in place of the label.", text(), example="rack"),
        },
        required=("nodeLabel",),
    )
    return mapping(
        {"levels": key("From the widest level to the narrowest.", each(level, least=1))}, required=("levels",)
    )


SHARD_KEYS: Final = tuple(_shard()["properties"])
"""The keys of `shard`."""
