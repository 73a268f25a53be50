"""Reads `muster:kai`: the settings of KAI for the whole stack.

The settings of a shard have the names of KAI's documentation. Not responsible for which values are legal
(muster/validation), nor for the settings of a team (kai_queues.py).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from muster.config.section import Section, describe_value
from muster.model.kai import (
    Action,
    KaiSettings,
    Level,
    Placement,
    Plugin,
    SearchBudgets,
    Sharding,
    ShardSettings,
    Strategy,
    Topology,
    Usage,
)
from muster.model.quantities import Bytes, parse_memory
from muster.model.violations import at

Item = TypeVar("Item")


def parse_kai(section: Section) -> KaiSettings:
    """The settings. Those of an absent section are KAI's defaults."""
    sharding = section.choice("sharding", Sharding, Sharding.ONE) if section.has("sharding") else None
    section.get("sharding")
    shard, known = section.section("shard"), KaiSettings()
    settings = KaiSettings(
        install=section.flag("install", known.install),
        sharding=sharding,
        gpu_sharing=section.flag("gpuSharing", known.gpu_sharing),
        cluster_autoscaling=section.flag("clusterAutoscaling", known.cluster_autoscaling),
        shard=_shard(shard),
        pools=_by_name(section.section("pools"), _shard),
        topologies=section.each("topologies", _topology),
    )
    section.close()
    return settings


def _shard(section: Section) -> ShardSettings:
    runtimes = section.section("minRuntime")
    settings = ShardSettings(
        placement=_placement(section.section("placementStrategy")),
        preempt_min_runtime=runtimes.seconds("preemptMinRuntime"),
        reclaim_min_runtime=runtimes.seconds("reclaimMinRuntime"),
        k_value=section.number("kValue"),
        args=_texts(section.section("args")),
        actions=_by_name(section.section("actions"), _action),
        plugins=_by_name(section.section("plugins"), _plugin),
        queue_depth=_integers(section.section("queueDepthPerAction")),
        memory_limit=_memory(section, "goMemLimit"),
        memory_limit_ratio=section.number("goMemLimitRatio", least=0.01, most=1),
        budgets=_budgets(section.section("scenarioSearchBudgets")),
        usage=_usage(section.section("usageDBConfig")) if section.get("usageDBConfig") is not None else None,
    )
    runtimes.close()
    section.close()
    return settings


def _placement(section: Section) -> Placement:
    known = Placement()
    placement = Placement(
        gpu=section.choice("gpu", Strategy, known.gpu) or known.gpu,
        cpu=section.choice("cpu", Strategy, known.cpu) or known.cpu,
    )
    section.close()
    return placement


def _action(section: Section) -> Action:
    action = Action(enabled=_flag(section, "enabled"), priority=_whole(section, "priority"))
    section.close()
    return action


def _plugin(section: Section) -> Plugin:
    plugin = Plugin(
        enabled=_flag(section, "enabled"),
        priority=_whole(section, "priority"),
        arguments=_texts(section.section("arguments")),
    )
    section.close()
    return plugin


def _budgets(section: Section) -> SearchBudgets:
    budgets = SearchBudgets(
        per_action=_durations(section.section("maxActionSearchDuration")),
        per_generator=_durations(section.section("maxGeneratorSearchDuration")),
        most_per_job=section.seconds("maxJobSearchDuration"),
        least_per_job=section.seconds("minJobSearchDuration"),
    )
    section.close()
    return budgets


def _usage(section: Section) -> Usage | None:
    client = section.text("clientType", required=True)
    connection = section.text("connectionStringEnvVar")
    if section.get("connectionString") is not None:
        fix = "put it into an environment variable and name that: `connectionStringEnvVar: ...`."
        section.note("connectionString", "may carry a password, which a stack file may not.", fix)
    params = section.section("usageParams")
    usage = Usage(
        client=client or "",
        connection=connection,
        window_size=params.text("windowSize"),
        window_type=params.text("windowType"),
        window_start=params.text("tumblingWindowStartTime"),
        cron=params.text("cronString"),
        half_life=params.seconds("halfLifePeriod"),
        fetch_interval=params.seconds("fetchInterval"),
        staleness=params.seconds("stalenessPeriod"),
        wait_timeout=params.seconds("waitTimeout"),
        extra=_texts(params.section("extraParams")),
    )
    params.close()
    section.close()
    return usage if client else None


def _topology(section: Section, name: str) -> Topology:
    value = section.get("levels")
    levels = value if isinstance(value, list) else []
    if not levels:
        message = f"must be a list of levels, is {describe_value(value)}."
        section.note("levels", message, "write the widest first: [{nodeLabel: example.com/block}].")
    read = tuple(
        _level(Section(level, at(section.path, "levels", index), section.found))
        for index, level in enumerate(levels)
    )
    section.close()
    return Topology(name=name, levels=tuple(level for level in read if level is not None))


def _level(section: Section) -> Level | None:
    label, alias = section.text("nodeLabel", required=True), section.text("alias")
    section.close()
    return None if label is None else Level(node_label=label, alias=alias)


def _whole(section: Section, key: str) -> int | None:
    return None if section.get(key) is None else section.integer(key, 0)


def _flag(section: Section, key: str) -> bool | None:
    return None if section.get(key) is None else section.flag(key, True)


def _memory(section: Section, key: str) -> Bytes | None:
    value = section.get(key)
    if value is None:
        return None
    try:
        return parse_memory(str(value))
    except ValueError as error:
        section.note(key, f"must be an amount of memory: {error}.", "write it like 512Mi or 6Gi.")
        return None


def _by_name(section: Section, read: Callable[[Section], Item]) -> Mapping[str, Item]:
    items = section.items()
    return MappingProxyType(
        {name: read(Section(value, at(section.path, name), section.found)) for name, value in items}
    )


def _texts(section: Section) -> Mapping[str, str]:
    """KAI's arguments are strings: numbers and booleans of YAML are converted back."""
    found: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, bool):
            found[key] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[key] = str(value)
        else:
            section.note(key, f"must be a text, is {describe_value(value)}.", "put it in quotes.")
    return MappingProxyType(found)


def _integers(section: Section) -> Mapping[str, int]:
    read = {key: section.integer(key, 1, least=1) for key, _ in section.items()}
    return MappingProxyType({key: value for key, value in read.items() if value is not None})


def _durations(section: Section) -> Mapping[str, int]:
    return MappingProxyType({key: section.duration(key, 0) for key, _ in section.items()})
