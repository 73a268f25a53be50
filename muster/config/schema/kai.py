"""The schema of `muster:kai`, and of `kai:` of a team or department, named as in KAI's documentation."""

from typing import Final

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
from muster.model.kai import DEFAULT_QUEUE_PRIORITY, UNLIMITED, Placement, Sharding, Strategy

_LIKE_OTHERS: Final = "that of the shard"


def definitions() -> dict[str, Schema]:
    return {"kaiShard": _shard()}


def settings() -> Schema:
    return mapping(
        {
            "install": key(
                "Whether Muster installs KAI; false where the cluster has it.", flag(), default=True
            ),
            "sharding": key(
                "One scheduler for all pools, or one for each.",
                choice(Sharding),
                otherwise="one where there is at most one GPU pool, per-pool otherwise",
            ),
            "gpuSharing": key(
                "Whether pods may request a part of a GPU; its memory is not isolated.", flag(), default=False
            ),
            "clusterAutoscaling": key(
                "Whether an autoscaler sees pods that wait for a part of a GPU.", flag(), default=False
            ),
            "shard": key("Settings of the schedulers.", defined("kaiShard")),
            "pools": key("A pool's own scheduler, in place of `shard`.", by_name(defined("kaiShard"))),
            "topologies": key("Node labels that describe how close two nodes are.", by_name(_topology())),
        }
    )


def queue() -> Schema:
    pool = mapping(_shares())
    return mapping(
        {
            "displayName": key("Its name in KAI's user interface.", text()),
            "priority": key(
                "Queues with a higher priority get capacity beyond all quotas first.",
                integer(),
                otherwise=str(DEFAULT_QUEUE_PRIORITY),
            ),
            "preemptMinRuntime": key(
                "How long work runs before work of its own queue may preempt it.",
                duration(),
                otherwise=_LIKE_OTHERS,
            ),
            "reclaimMinRuntime": key(
                "How long work runs before other queues may reclaim its capacity.",
                duration(),
                otherwise=_LIKE_OTHERS,
            ),
            **_shares(),
            "pools": key("The figures of each pool's queue, where each pool has one.", by_name(pool)),
        }
    )


def _shares() -> dict[str, Schema]:
    names = {"gpu": "GPUs", "cpu": "CPU", "memory": "Memory"}
    return {name: key(f"{noun} of the queue.", _share()) for name, noun in names.items()}


def _share() -> Schema:
    figure = either(quantity(), {"const": UNLIMITED.value})
    return mapping(
        {
            "quota": key("What is guaranteed.", figure, otherwise="from the quota of the team or department"),
            "limit": key("The most in all, quota included.", figure, otherwise="from `quota` and `borrow`"),
            "overQuotaWeight": key(
                "Its share of what is free beyond all quotas.",
                integer(most=1_000_000),
                otherwise="from `weight`",
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
        "preemptMinRuntime": key("Before work of the same queue preempts it.", duration()),
        "reclaimMinRuntime": key("Before other queues reclaim its capacity.", duration()),
    }
    return mapping(
        {
            "placementStrategy": key("Whether nodes are filled one after another.", mapping(placement)),
            "minRuntime": key("How long work runs before it can be evicted.", mapping(runtimes)),
            "kValue": key("How strongly past use counts when free capacity is divided.", number()),
            "args": key("Arguments of the scheduler.", by_name(word())),
            "actions": key("The scheduler's actions, by name.", by_name(_action())),
            "plugins": key("The scheduler's plugins, by name.", by_name(_plugin())),
            "queueDepthPerAction": key(
                "How many jobs of a queue an action looks at.", by_name(integer(least=1))
            ),
            "goMemLimit": key("The memory limit of the scheduler's Go runtime.", quantity()),
            "goMemLimitRatio": key(
                "The same as a part of its container's limit.", number(least=0.01, most=1)
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
            "priority": key("When it runs: higher ones first.", integer()),
        }
    )


def _plugin() -> Schema:
    return mapping(
        {
            "enabled": key("Whether it runs.", flag()),
            "priority": key("When it runs: higher ones first.", integer()),
            "arguments": key("Its arguments, in place of all of its own.", by_name(word())),
        }
    )


def _budgets() -> Schema:
    return mapping(
        {
            "maxActionSearchDuration": key(
                "The longest search of an action, by its name.", by_name(duration())
            ),
            "maxGeneratorSearchDuration": key(
                "The longest search of a generator, by its name.", by_name(duration())
            ),
            "maxJobSearchDuration": key("The longest search for one job.", duration()),
            "minJobSearchDuration": key("The shortest search for one job.", duration()),
        }
    )


def _usage() -> Schema:
    params = mapping(
        {
            "windowSize": key("How far back, as Prometheus writes it: 1w2d.", text()),
            "windowType": key("The kind of window.", text()),
            "tumblingWindowStartTime": key("The start of a tumbling window, as in RFC 3339.", text()),
            "cronString": key("When a cron window begins.", text()),
            "halfLifePeriod": key("After this time past use counts half.", duration()),
            "fetchInterval": key("How often use is read.", duration()),
            "stalenessPeriod": key("After this time what was read no longer counts.", duration()),
            "waitTimeout": key("How long to wait for an answer.", duration()),
            "extraParams": key("Further parameters of the client.", by_name(word())),
        }
    )
    return mapping(
        {
            "clientType": key("The kind of database.", text()),
            "connectionStringEnvVar": key(
                "The environment variable of the scheduler that has the address.", text()
            ),
            "usageParams": key("How past use is counted.", params),
        },
        required=("clientType",),
    )


def _topology() -> Schema:
    level = mapping(
        {
            "nodeLabel": key("The label of nodes.", text()),
            "alias": key("A name that work may use in place of the label.", text()),
        },
        required=("nodeLabel",),
    )
    return mapping(
        {"levels": key("From the widest level to the narrowest.", each(level, least=1))}, required=("levels",)
    )
