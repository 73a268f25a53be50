"""GangPolicy: how gangs get their capacity, in which order, for how long. The only declaration of its fields:
the custom resource definition, the reader and the manifest follow from it (keys.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from muster.model import crds
from muster.model.keys import ANY_INTEGER, ParameterText, QuantityText, Schema, declared, read, to_json
from muster.model.names import (
    API_VERSION,
    DEVICE_RESOURCES,
    GANG_POLICY,
    GANG_POLICY_KIND,
    GANG_POLICY_PLURAL,
    GANG_POLICY_SHORT,
    GKE_QUEUED_CLASS,
    GPU_RESOURCE,
    PLACEHOLDER_CLASS,
)
from muster.model.pods import Amounts
from muster.model.quantities import format_duration, parse_quantity
from muster.model.section import Section
from muster.model.violations import Violation

_NAME: Final[Mapping[str, Any]] = {"maxLength": 253}
MOST_FLAVORS: Final = 256
"""As many pools as Kueue lets a queue name: 16 resource groups of 16 flavors and room to spare."""


class OnStaggered(StrEnum):
    """What to do with finished requests when a sibling is later than the booking window allows."""

    RELEASE = "release"
    HOLD = "hold"


class OnStockOut(StrEnum):
    """What to do when a pool is out of stock: wait for it, or take the next flavor of the queue."""

    RETRY = "retry"
    NEXT_FLAVOR = "nextFlavor"


class WhileRunning(StrEnum):
    """What happens to a gang that runs on a broken node: it is left alone, or queues again."""

    LEAVE = "leave"
    REQUEUE = "requeue"


class OverQuota(StrEnum):
    """Whether a gang may ask for capacity above its queue's quota, which KAI can take back at any time."""

    DENY = "deny"
    ALLOW = "allow"


class IdleAction(StrEnum):
    """What happens to a gang whose GPUs do nothing, beside an Event on it."""

    REPORT = "report"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """What follows when no GPU of a running gang does anything."""

    after: timedelta = declared(
        "For how long no GPU of a gang does anything before it is idle.", timedelta(minutes=45), example="2h"
    )
    notice: timedelta = declared(
        "How long before it is suspended an Event and `muster why` say so.",
        timedelta(minutes=10),
        example="30m",
    )
    action: IdleAction = declared(
        "`suspend` takes the quota of an idle gang, `report` only says that it is idle.",
        IdleAction.REPORT,
        example="suspend",
    )
    keep: timedelta = declared(
        "For how long after the notice a job may keep its quota by annotation `muster.dev/keep-until`.",
        timedelta(hours=4),
        example="12h",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiPolicy:
    """How gangs in KAI's queues are admitted. Over quota there is no guarantee."""

    over_quota: OverQuota = declared(
        "Whether preemptible gangs pass above their queue's quota, up to its limit.", OverQuota.DENY
    )
    # A policy of ours, no figure of a cloud.
    preempt_after: timedelta = declared(
        "How long a gang waits for new nodes before it takes room that KAI may give it.", timedelta(minutes=1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailSelector:
    """Pins pods to their own lease: node label `key` = the request's provisioning-class detail `detail`."""

    key: str = declared("Label of the nodes.", minLength=1, **_NAME)
    detail: str = declared("Name of the request's provisioningClassDetail.", minLength=1, **_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPolicy:
    """How gangs get nodes of one ResourceFlavor. With an empty `provisioning_class_name` nothing is
    requested; with `verify_nodes` the pods must then fit on existing nodes, and without it the flavor is
    ignored.
    """

    name: str = declared("Name of the ResourceFlavor.", minLength=1, **_NAME)
    provisioning_class_name: str = declared("Empty: nothing is requested.", "", **_NAME)
    parameters: Mapping[str, ParameterText] = declared(
        "Parameters of each ProvisioningRequest for this flavor.", {}, maxProperties=100
    )
    node_selector_from_details: tuple[DetailSelector, ...] = declared(
        "Pins pods to their own lease: node label `key` = the request's `detail`.",
        (),
        maxItems=8,
        **crds.by_key("key"),
    )
    one_pod_set_per_request: bool = declared("Each PodSet gets a request of its own, as GKE demands.", True)
    verify_nodes: bool = declared("Whether the pods have to fit on Ready nodes before the gang starts.", True)
    max_nodes: int = declared("Maximum number of nodes of the pool; 0: not known.", 0)
    gpus_per_node: int = declared("GPUs of one node; 0: not known.", 0)
    per_node: Mapping[str, QuantityText] = declared(
        "The most that pods can request of one node, by resource, GPUs excepted.", {}, maxProperties=20
    )
    gpu_taint: bool = declared(
        "Kueue assigns it only to pods that tolerate the taint of GPUs or TPUs.", False
    )
    gpu_memory: int = declared("MiB of one GPU; 0: not known.", 0)
    mig_profile: str = declared(
        "MIG profile of its GPUs, whose slices count as GPUs.", "", is_sparse=True, maxLength=63
    )
    slice_nodes: int = declared(
        "Nodes of one TPU slice, which the cloud makes together; a gang takes all of them.", 1, is_sparse=True
    )
    scarcity: int = declared("Pools with a higher value are requested first.", 0, **ANY_INTEGER)
    node_labels: Mapping[str, str] = declared(
        "Labels of its nodes by which pods select them; several values of one are joined by commas.",
        {},
        is_sparse=True,
        maxProperties=64,
        additionalProperties={"type": "string", "maxLength": 1023},
    )
    zones: tuple[str, ...] = declared(
        "Zones of its nodes; empty: not known.",
        (),
        is_sparse=True,
        items={"type": "string", "maxLength": 63},
        maxItems=32,
    )

    @property
    def node(self) -> Amounts:
        """Everything that is known of one node, GPUs included."""
        known = {name: parse_quantity(amount) for name, amount in self.per_node.items()}
        return {**known, GPU_RESOURCE: Fraction(self.gpus_per_node)} if self.gpus_per_node else known

    @property
    def device(self) -> str:
        """The resource of its nodes' accelerators, and the key of their taint; GPUs where they have none."""
        return next((name for name in DEVICE_RESOURCES if name in self.per_node), GPU_RESOURCE)

    @property
    def by_placeholders(self) -> bool:
        """Its nodes are bought for pods that keep them, and not for a ProvisioningRequest."""
        return self.provisioning_class_name == PLACEHOLDER_CLASS

    @property
    def has_own_nodes(self) -> bool:
        """No pod of another gang can use what is bought for a gang."""
        return self.by_placeholders or bool(self.node_selector_from_details)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    base: timedelta = declared("The first wait.", timedelta(seconds=60))
    max: timedelta = declared("The longest wait.", timedelta(minutes=30))
    deadline: timedelta = declared(
        "The gang is refused this long after its first attempt began, and not before its third attempt "
        "failed. With Kueue, time spent waiting for quota does not count.",
        timedelta(hours=24),
    )
    jitter_percent: int = declared(
        "Random variation of each wait, so that gangs that failed together retry at different times.",
        20,
        maximum=100,
    )
    per_minute: int = declared(
        "Maximum number of retries per minute over all gangs, with bursts of a tenth of it; namespaces take "
        "turns. First attempts are not counted. 0: no bound.",
        300,
    )


# Sources: https://docs.aws.amazon.com/eks/latest/userguide/node-health.html (EKS's monitoring agent),
# https://docs.nebius.com/kubernetes/maintenance/health-checks (Nebius), docs/INTEGRATIONS.md and
# docs/nvcre-certification-monitor.md of https://github.com/NVIDIA/NVSentinel (the others), read 2026-11-29.
# Left out of NVSentinel's: what is no fault of the node (GpuThermalWatch, GpuPowerWatch, GpuCpusetWatch,
# CSPMaintenance) and what a driver that is being replaced shows as well (GpuDriverWatch, DCGMError).
_CONDITIONS: Final = (
    "AcceleratedHardwareReady=False",
    "GpuInforomWatch=True",
    "GpuMcuWatch=True",
    "GpuMemWatch=True",
    "GpuNvlinkWatch=True",
    "GpuPcieWatch=True",
    "GpuPmuWatch=True",
    "GpuSmWatch=True",
    "NVCRECertFailed=True",
    "NVSwitchDown=True",
    "NVSwitchFatalError=True",
    "NebiusGPUError=True",
    "SysLogsGPUFallenOff=True",
    "SysLogsSXIDError=True",
    "SysLogsXIDError=True",
)
_TAINTS: Final = (
    "nvidia.com/gpu-error",
    "nvidia.com/gpu-nvlink-error",
    "nvidia.com/gpu-xid-error",
    "nvidia.com/syslog-xid-error",
    "nvsentinel.dgxc.nvidia.com/nvcre-cert-failed",
)
_LABELS: Final = ("nvsentinel.dgxc.nvidia.com/nvcre-cert-failure=true",)
# Of NVIDIA's driver for DRA. Left out: gpu.nvidia.com/unmonitored, which says nothing of the GPU.
# Source: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu
# (cmd/gpu-kubelet-plugin/device_health.go), read 2026-11-29
_DEVICE_TAINTS: Final = ("gpu.nvidia.com/gpu-lost", "gpu.nvidia.com/xid")
_SIGNS: Final[Mapping[str, Any]] = {
    "items": {"type": "string", "minLength": 1, "maxLength": 381},
    "maxItems": 64,
    **crds.A_SET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenNodes:
    """By which signs a node is broken, and what follows."""

    conditions: tuple[str, ...] = declared("Node conditions, as `type=status`.", _CONDITIONS, **_SIGNS)
    taints: tuple[str, ...] = declared("Keys of taints.", _TAINTS, **_SIGNS)
    labels: tuple[str, ...] = declared("Node labels, as `key=value`.", _LABELS, **_SIGNS)
    device_taints: tuple[str, ...] = declared(
        "Keys of taints with an effect that a DRA driver puts on devices of the node.",
        _DEVICE_TAINTS,
        **_SIGNS,
    )
    lost_devices: bool = declared("Whether a node is broken that has lost some of its GPUs.", True)
    rejections: int = declared(
        "Of how many jobs, of two teams at least, a node may reject pods within five minutes because it "
        "could not give them a device; 0: it is not counted.",
        3,
    )
    after: timedelta = declared(
        "How long a sign lasts before the node is set aside, and is gone before it is not.",
        timedelta(minutes=1),
    )
    most: int = declared(
        "Nodes that are set aside at the same time, beside the bound of a tenth of each pool, or one; "
        "0: none is.",
        8,
    )
    running: WhileRunning = declared(
        "What happens to gangs that run on a broken node: `requeue` queues them again after nodeLossGrace.",
        WhileRunning.LEAVE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    """The whole policy. Clocks start at: quota (queue), Accepted (provision), Provisioned (booking)."""

    managed_resources: tuple[str, ...] = declared(
        "PodSets that ask for one of these get provisioning requests.",
        (GPU_RESOURCE,),
        items={"type": "string", "minLength": 1, "maxLength": 317},
        minItems=1,
        maxItems=100,
        **crds.A_SET,
    )
    queue_timeout: timedelta = declared("Longest wait from request to Accepted.", timedelta(hours=24))
    provision_timeout: timedelta = declared(
        "Longest wait from Accepted until every node is ready and verified.", timedelta(minutes=30)
    )
    # Ten minutes is fixed in the cluster autoscaler, so a longer window here could not be kept.
    booking_window: timedelta = declared(
        "How long the autoscaler keeps provisioned capacity for the pods of the gang.", timedelta(minutes=10)
    )
    booking_margin: timedelta = declared(
        "How long before the end of the window the gang acts.", timedelta(minutes=1)
    )
    on_staggered: OnStaggered = declared(
        "What happens to provisioned requests when others of the gang come too late.", OnStaggered.RELEASE
    )
    on_stock_out: OnStockOut = declared(
        "What happens to a gang whose pool is out of stock.", OnStockOut.RETRY
    )
    placeholder_image: str = declared(
        "Image of the placeholder pods; empty: `onStaggered: hold` acts as `release`.",
        "",
        is_sparse=True,
        maxLength=500,
    )
    retry: RetryPolicy = declared(
        "The backoff without quota: base, doubled up to max, until deadline.", RetryPolicy()
    )
    node_loss_grace: timedelta = declared(
        "How long a running gang may lack nodes before it queues again as a whole; 0s: forever.",
        timedelta(minutes=2),
    )
    unreachable_grace: timedelta = declared(
        "The same for nodes whose kubelet does not report (Ready is Unknown). It does not begin while most "
        "nodes are silent. 0s: forever.",
        timedelta(minutes=5),
    )
    broken_nodes: BrokenNodes = declared(
        "Which nodes no gang starts on, because they are broken.", BrokenNodes(), is_sparse=True
    )
    lease_notice: timedelta = declared(
        "How long before its lease ends a running gang is notified; 0s: not at all.", timedelta(minutes=30)
    )
    flavors: tuple[FlavorPolicy, ...] = declared(
        "The pools, one entry each.", (), maxItems=MOST_FLAVORS, **crds.by_key("name")
    )
    compared_labels: tuple[str, ...] = declared(
        "Node labels, or their beginnings up to `/`, of which nodes have those in nodeLabels alone.",
        (),
        is_sparse=True,
        items={"type": "string", "minLength": 1, "maxLength": 317},
        maxItems=32,
    )
    idle: Mapping[str, IdlePolicy] = declared(
        "What happens to gangs that do nothing, by ClusterQueue.", {}, is_sparse=True, maxProperties=10_000
    )
    kai: KaiPolicy | None = declared(
        "Present where KAI schedules: gated Ray clusters are released, and no Workloads.", None
    )

    @property
    def holds(self) -> bool:
        """Whether finished requests are kept for siblings that come late."""
        return self.on_staggered is OnStaggered.HOLD and bool(self.placeholder_image)

    def flavor(self, name: str) -> FlavorPolicy | None:
        return next((flavor for flavor in self.flavors if flavor.name == name), None)


def crd() -> Schema:
    return crds.cluster_scoped(
        GANG_POLICY_KIND,
        GANG_POLICY_PLURAL,
        "How gangs get their capacity, in which order, for how long.",
        spec={
            **crds.schema(GangPolicy),
            "description": "Written by the program, from `muster:gangAdmission` and the pools.",
            "default": {},
        },
        short=GANG_POLICY_SHORT,
        conditions="`Accepted`: whether the controller applies the spec as it is written.",
        columns=(
            ("Accepted", '.status.conditions[?(@.type=="Accepted")].status', "string"),
            ("Provision", ".spec.provisionTimeout", "string"),
            ("Staggered", ".spec.onStaggered", "string"),
        ),
    )


def to_manifest(policy: GangPolicy, *, name: str = GANG_POLICY) -> dict[str, Any]:
    """The GangPolicy object, every field written out: a diff shows what changes and no default hides."""
    return {
        "apiVersion": API_VERSION,
        "kind": GANG_POLICY_KIND,
        "metadata": {"name": name},
        "spec": to_json(policy),
    }


def from_spec(spec: object, *, path: str = "spec", is_stored: bool = False) -> GangPolicy | list[Violation]:
    """Read a policy from its `spec`, or return every violation. `is_stored` ignores unknown fields, so that
    an older replica keeps working during a rollout.
    """
    found: list[Violation] = []
    policy = read(GangPolicy, Section(spec, path, found, lenient=is_stored)) or GangPolicy()
    return found or violations(policy, path=path) or policy


def unknown_fields(spec: object, *, path: str = "spec") -> list[str]:
    """The paths of what is no field of GangPolicy."""
    strict: list[Violation] = []
    lenient: list[Violation] = []
    read(GangPolicy, Section(spec, path, strict))
    read(GangPolicy, Section(spec, path, lenient, lenient=True))
    return sorted(violation.path for violation in strict if violation not in lenient)


# Rules between fields


def violations(policy: GangPolicy, *, path: str = "spec") -> list[Violation]:
    """Every broken rule between fields; the reader has judged each by itself."""
    return [
        *_clock_violations(policy, path),
        *_flavor_violations(policy, path),
        *_broken_node_violations(policy.broken_nodes, f"{path}.brokenNodes"),
    ]


def _clock_violations(policy: GangPolicy, path: str) -> Iterator[Violation]:
    positive = {
        "queueTimeout": policy.queue_timeout,
        "provisionTimeout": policy.provision_timeout,
        "bookingWindow": policy.booking_window,
        "retry.base": policy.retry.base,
        "retry.deadline": policy.retry.deadline,
    }
    for name, duration in positive.items():
        if duration <= timedelta(0):
            yield Violation(f"{path}.{name}", "must be longer than 0s.", "write a duration such as 30m.")
    if policy.booking_margin >= policy.booking_window:
        yield Violation(
            f"{path}.bookingMargin",
            f"{format_duration(policy.booking_margin)} leaves nothing of the booking window of "
            f"{format_duration(policy.booking_window)}.",
            "make it shorter than bookingWindow; 1m is usual.",
        )
    if policy.retry.max < policy.retry.base:
        yield Violation(
            f"{path}.retry.max", "is shorter than retry.base.", "make it at least as long as retry.base."
        )
    for queue, idle in policy.idle.items():
        yield from idle_violations(idle, f"{path}.idle.{queue}", least=timedelta(seconds=1))
    if policy.on_stock_out is OnStockOut.NEXT_FLAVOR and policy.kai is not None:
        yield Violation(
            f"{path}.onStockOut",
            "`nextFlavor` is not served with KAI: its queues have no flavors, jobs name their pool.",
            "write `retry`.",
        )
    if policy.on_staggered is OnStaggered.HOLD and policy.kai is not None:
        yield Violation(
            f"{path}.onStaggered",
            "`hold` is not supported with KAI: the pods that keep the nodes would be in no queue.",
            "write `release`: a piece that comes too early is released and requested again.",
        )


def idle_violations(idle: IdlePolicy, path: str, *, least: timedelta) -> Iterator[Violation]:
    for name, duration in (("after", idle.after), ("notice", idle.notice)):
        if duration < least:
            yield Violation(
                f"{path}.{name}",
                f"must be {format_duration(least)} at least.",
                "leave it out for the default.",
            )


def _broken_node_violations(words: BrokenNodes, path: str) -> Iterator[Violation]:
    pairs = (("conditions", words.conditions, "Type=True"), ("labels", words.labels, "key=value"))
    for name, entries, form in pairs:
        for index, entry in enumerate(entries):
            if not all(entry.partition("=")[::2]):
                yield Violation(
                    f"{path}.{name}[{index}]", f"has no `=` between two words: {entry}.", f"write {form}."
                )
    if "Ready" in {entry.partition("=")[0] for entry in words.conditions}:
        yield Violation(
            f"{path}.conditions", "has Ready, which decides in any case.", "remove it; see unreachableGrace."
        )


def _flavor_violations(policy: GangPolicy, path: str) -> Iterator[Violation]:
    if not policy.managed_resources:
        yield Violation(
            f"{path}.managedResources", "is empty.", "name at least one resource: [nvidia.com/gpu]."
        )
    if "" in policy.managed_resources or len({*policy.managed_resources}) < len(policy.managed_resources):
        yield Violation(
            f"{path}.managedResources",
            "has an empty name, or one name twice, which the API server refuses.",
            "name each resource once.",
        )
    seen: set[str] = set()
    for index, flavor in enumerate(policy.flavors):
        where = f"{path}.flavors[{index}]"
        if not flavor.name:
            yield Violation(f"{where}.name", "is empty.", "write the name of a ResourceFlavor.")
        if flavor.name in seen:
            yield Violation(f"{where}.name", f"{flavor.name} is listed twice.", "merge the two entries.")
        seen.add(flavor.name)
        if flavor.slice_nodes < 1:
            yield Violation(f"{where}.sliceNodes", "is below 1.", "1 means: each node is its own.")
        one_each = flavor.one_pod_set_per_request
        if flavor.provisioning_class_name == GKE_QUEUED_CLASS and not one_each:
            yield Violation(
                f"{where}.onePodSetPerRequest",
                f"{GKE_QUEUED_CLASS} takes one PodSet a request.",
                "write true.",
            )
