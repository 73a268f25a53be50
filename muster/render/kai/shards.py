"""SchedulingShard of every partition: the settings of its scheduler.

Placement is always written, so that a preview shows it; other settings only where the stack has them. Not
responsible for the number of partitions (muster/model/kai/partition.py).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from muster.model import names
from muster.model.durations import format_duration
from muster.model.kai import Action, Plugin, SearchBudgets, ShardSettings, Usage
from muster.model.kai.partition import Partition, partitions
from muster.model.quantities import format_memory
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest


def shards(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_SHARD_API_VERSION, "SchedulingShard", partition.name, spec=_spec(stack, partition))
        for partition in partitions(stack)
    ]


def _spec(stack: Stack, partition: Partition) -> Manifest:
    settings = stack.kai.pools.get(partition.pool or "", stack.kai.shard)
    # Without a value a shard has the nodes, queues and gangs that carry no pool's label.
    value = {} if partition.pool is None else {"partitionLabelValue": partition.pool}
    return {**value, **_settings(settings)}


def _settings(settings: ShardSettings) -> Manifest:
    return {
        "placementStrategy": {"gpu": settings.placement.gpu.value, "cpu": settings.placement.cpu.value},
        **_without_empty(
            {
                "minRuntime": _without_empty(
                    {
                        "preemptMinRuntime": duration(settings.preempt_min_runtime),
                        "reclaimMinRuntime": duration(settings.reclaim_min_runtime),
                    }
                ),
                "kValue": settings.k_value,
                "args": dict(settings.args),
                "actions": {name: _action(action) for name, action in settings.actions.items()},
                "plugins": {name: _plugin(plugin) for name, plugin in settings.plugins.items()},
                "queueDepthPerAction": dict(settings.queue_depth),
                "goMemLimit": None if settings.memory_limit is None else format_memory(settings.memory_limit),
                "goMemLimitRatio": settings.memory_limit_ratio,
                "scenarioSearchBudgets": _budgets(settings.budgets),
                "usageDBConfig": None if settings.usage is None else _usage(settings.usage),
            }
        ),
    }


def _action(action: Action) -> Manifest:
    return _without_empty({"enabled": action.enabled, "priority": action.priority})


def _plugin(plugin: Plugin) -> Manifest:
    return _without_empty(
        {"enabled": plugin.enabled, "priority": plugin.priority, "arguments": dict(plugin.arguments)}
    )


def _budgets(budgets: SearchBudgets) -> Manifest:
    return _without_empty(
        {
            "maxActionSearchDuration": _durations(budgets.per_action),
            "maxGeneratorSearchDuration": _durations(budgets.per_generator),
            "maxJobSearchDuration": duration(budgets.most_per_job),
            "minJobSearchDuration": duration(budgets.least_per_job),
        }
    )


def _usage(usage: Usage) -> Manifest:
    params = _without_empty(
        {
            "windowSize": usage.window_size,
            "windowType": usage.window_type,
            "tumblingWindowStartTime": usage.window_start,
            "cronString": usage.cron,
            "halfLifePeriod": duration(usage.half_life),
            "fetchInterval": duration(usage.fetch_interval),
            "stalenessPeriod": duration(usage.staleness),
            "waitTimeout": duration(usage.wait_timeout),
            "extraParams": dict(usage.extra),
        }
    )
    return {
        "clientType": usage.client,
        **_without_empty({"connectionStringEnvVar": usage.connection, "usageParams": params}),
    }


def duration(seconds: int | None) -> str | None:
    """A duration as KAI reads it, `1h30m`."""
    return None if seconds is None else format_duration(timedelta(seconds=seconds))


def _durations(seconds: Mapping[str, int]) -> dict[str, str]:
    return {name: format_duration(timedelta(seconds=value)) for name, value in seconds.items()}


def _without_empty(fields: Mapping[str, Any]) -> Manifest:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None and value != {}}
