"""KAI's programs: their command lines, and the configuration of a scheduler for each SchedulingShard.

Pure. `muster local build --only kai` compiles them (release 0.12.0). A control plane of its own runs them for
tests (tests/integration/real_kai), a local cluster for the demo (muster/local/cluster/kai.py). KAI's operator
is left out: `scheduler_config` does what the operator does with a shard. Of KAI's webhooks only that of pods
is there, on local clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from muster.model import names

FOLDER: Final = "kai"
"""Under which `muster local build --only` finds all of them."""
CRDS: Final = "kai-crds"
ROLES: Final = "kai-roles"
SCHEDULER: Final = "kai-scheduler"
BINDER: Final = "kai-binder"
ADMISSION: Final = "kai-admission"
RESERVATION: Final = "kai-gpu-reservation"
"""A stand-in of ours for the program in KAI's reservation pods: a program and its image."""
RESERVATIONS: Final = "kai-resource-reservation"
"""The namespace of the pods that hold shared GPUs, and their account."""
DEVICE_ANNOTATION: Final = "run.ai/reserve_for_gpu_index"
SHARDS: Final = "/apis/kai.scheduler/v1/schedulingshards"
SHARD_RUNNER: Final = "kai-shards"
"""The process of a local cluster that runs a scheduler for each SchedulingShard."""


@dataclass(frozen=True, slots=True)
class KaiProgram:
    """`account`: its ServiceAccount in KAI's chart. `role`: the file of ROLES with its ClusterRole."""

    account: str
    role: str


PROGRAMS: Final[Mapping[str, KaiProgram]] = MappingProxyType(
    {
        SCHEDULER: KaiProgram("scheduler", "scheduler.yaml"),
        BINDER: KaiProgram("binder", "binder.yaml"),
        "kai-podgrouper": KaiProgram("pod-grouper", "podgrouper.yaml"),
        "kai-podgroup-controller": KaiProgram("podgroup-controller", "podgroupcontroller.yaml"),
        "kai-queue-controller": KaiProgram("queue-controller", "queuecontroller.yaml"),
        ADMISSION: KaiProgram("admission", "admission.yaml"),
    }
)


def controller_flags(*, label_key: str = "") -> dict[str, tuple[str, ...]]:
    """Program -> its flags, of all but scheduler and admission. They listen nowhere: their webhooks are off.

    `label_key`: the label of pods by which a pod group gets its shard, empty where there is one shard.
    """
    return {
        BINDER: ("--metrics-bind-address=0", "--health-probe-bind-address=0"),
        "kai-podgrouper": (
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            f"--queue-label-key={names.KAI_QUEUE_LABEL}",
            *([f"--nodepool-label-key={label_key}"] if label_key else []),
        ),
        "kai-podgroup-controller": (
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            "--enable-podgroup-webhook=false",
        ),
        "kai-queue-controller": (
            "--metrics-listen-address=0",
            "--enable-webhook=false",
            f"--queue-label-key={names.KAI_QUEUE_LABEL}",
        ),
    }


def admission_flags(port: int) -> tuple[str, ...]:
    """Of the webhook of pods, as for a stack with `gpuSharing: true` on nodes without a runtime class."""
    return (
        f"--webhook-addr={port}",
        "--gpu-sharing-enabled=true",
        "--gpu-pod-runtime-class-name=",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    )


def scheduler_flags(*, listen_port: int, plugin_port: int, period: str, verbosity: int) -> tuple[str, ...]:
    """Of every scheduler. `period`: the pause between its rounds, such as "1s"."""
    return (
        f"--listen-address=127.0.0.1:{listen_port}",
        f"--plugin-server-port={plugin_port}",
        f"--schedule-period={period}",
        f"--v={verbosity}",
    )


# The configuration of each of KAI's schedulers, as KAI's operator derives it from a SchedulingShard.
#
# Follows KAI 0.12.0 (pkg/operator/operands/scheduler/resources_for_shard.go), except that actions and plugins
# can be switched off and get arguments, as 0.13 does.

_SPREAD: Final = "spread"
_PLUGINS: Final = (
    "predicates",
    "proportion",
    "priority",
    "nodeavailability",
    "resourcetype",
    "podaffinity",
    "elastic",
    "kubeflow",
    "ray",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "minruntime",
    "topology",
)


def shard_flags(spec: Mapping[str, Any], *, label_key: str) -> list[str]:
    """The scheduler's flags for a shard of this spec. `label_key`: the label that assigns nodes to shards,
    empty where one shard has them all.
    """
    flags = {
        "nodepool-label-key": label_key,
        "partition-label-value": spec.get("partitionLabelValue", ""),
        **_section(spec, "args"),
    }
    return [f"--{name}={value}" for name, value in flags.items()]


def scheduler_config(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The scheduler's configuration file for a shard of this spec."""
    plugins = [each for each in _plugins(spec) if _is_enabled(spec, "plugins", each["name"])]
    actions = [each for each in _actions(spec) if _is_enabled(spec, "actions", each)]
    return {
        "actions": ", ".join(actions),
        "tiers": [{"plugins": [_with_arguments(each, spec) for each in plugins]}],
        **{key: spec[key] for key in ("queueDepthPerAction", "usageDBConfig") if key in spec},
    }


def _is_enabled(spec: Mapping[str, Any], kind: str, name: str) -> bool:
    return _section(spec, kind, name).get("enabled") is not False


def _actions(spec: Mapping[str, Any]) -> Iterator[str]:
    yield "allocate"
    if _SPREAD not in _placement(spec).values():
        yield "consolidation"
    yield from ("reclaim", "preempt", "stalegangeviction")


def _plugins(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    placement = _placement(spec)
    arguments = {"proportion": {"kValue": f"{spec['kValue']:g}"}} if "kValue" in spec else {}
    for name in _PLUGINS:
        yield {"name": name, **({"arguments": arguments[name]} if name in arguments else {})}
    yield {"name": f"gpu{placement['gpu'].removeprefix('bin')}"}
    yield {"name": "nodeplacement", "arguments": placement}
    if placement["gpu"] != _SPREAD:
        yield {"name": "gpusharingorder"}
    protection = _section(spec, "minRuntime")
    if protection:
        defaults = {f"default{key[0].upper()}{key[1:]}": value for key, value in protection.items()}
        yield {"name": "minruntime", "arguments": defaults}


def _placement(spec: Mapping[str, Any]) -> dict[str, str]:
    return {"gpu": "binpack", "cpu": "binpack", **_section(spec, "placementStrategy")}


def _with_arguments(plugin: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    own = _section(spec, "plugins", plugin["name"], "arguments")
    return {**plugin, "arguments": own} if own else plugin


def _section(spec: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """What is below these keys; empty where the shard says nothing."""
    for key in keys:
        spec = spec.get(key) or {}
    return spec
