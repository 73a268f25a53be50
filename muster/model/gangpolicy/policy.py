"""The policy as plain data: how gangs get their capacity, in which order, for how long.

Responsible for fields, units and defaults. Not responsible for the values that suit a cloud (the stack sets
them) nor for what the controller does with them (muster/controller/gangs).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction

from muster.model.names import DEVICE_RESOURCES, GPU_RESOURCE, PLACEHOLDER_CLASS
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity


class OnStaggered(StrEnum):
    """What to do with finished requests when a sibling is later than the booking window allows."""

    RELEASE = "release"
    HOLD = "hold"


class OnStockOut(StrEnum):
    """What to do when a pool is out of stock: wait for it, or take the next flavor of the queue."""

    RETRY = "retry"
    NEXT_FLAVOR = "nextFlavor"


class OverQuota(StrEnum):
    """Whether a gang may ask for capacity above its queue's quota, which KAI can take back at any time."""

    DENY = "deny"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiPolicy:
    """How gangs in KAI's queues are admitted. Over quota there is no guarantee: with `allow`, preemptible
    gangs are admitted up to their queue's limit and may lose their nodes to work within its quota.
    """

    over_quota: OverQuota = OverQuota.DENY


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailSelector:
    """Pins pods to their own lease: node label `key` = the request's provisioning-class detail `detail`."""

    key: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPolicy:
    """How gangs get nodes of one ResourceFlavor.

    With an empty `provisioning_class_name` nothing is requested. With `verify_nodes` the pods assigned to
    this flavor must then fit on existing nodes (a CPU head on a fixed pool); without it the flavor is
    ignored.
    """

    name: str
    provisioning_class_name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    node_selector_from_details: tuple[DetailSelector, ...] = ()
    one_pod_set_per_request: bool = True
    verify_nodes: bool = True
    max_nodes: int = 0
    """Most nodes that the pool can have; 0 = not known, no gang is refused for its size."""
    gpus_per_node: int = 0
    per_node: Mapping[str, str] = field(default_factory=dict)
    """The most that pods can request of one node, by resource, GPUs excepted: Kubernetes quantities. A
    resource that is missing is not known, and no gang is refused for it.
    """
    gpu_taint: bool = False
    """Kueue assigns it only to pods that tolerate the taint of nodes with GPUs."""
    gpu_memory: int = 0
    """MiB of one GPU, of which a pod's `gpu-memory` is a part; 0 = not known, such a pod gets a whole one."""
    slice_nodes: int = 1
    """Nodes that are made and lost together, as those of a TPU slice: a gang takes whole slices."""
    scarcity: int = 0
    """Higher is requested first, so that scarce capacity does not wait for common capacity."""

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
        """No pod of another gang can use what is bought for a gang: pods select their lease, or tolerate a
        taint.
        """
        return self.by_placeholders or bool(self.node_selector_from_details)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The wait between attempts: base, doubled up to max, +-jitter percent; given up after the deadline, and
    after three attempts.
    """

    base: timedelta = timedelta(seconds=60)
    max: timedelta = timedelta(minutes=30)
    deadline: timedelta = timedelta(hours=24)
    jitter_percent: int = 20
    per_minute: int = 300
    """Maximum number of retries per minute over all gangs: thousands that failed together come back as a
    stream. 0 = no bound. First attempts are not counted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPolicy:
    """The whole policy. Clocks start at: quota (queue), Accepted (provision), Provisioned (booking)."""

    managed_resources: tuple[str, ...] = (GPU_RESOURCE,)
    queue_timeout: timedelta = timedelta(hours=24)
    provision_timeout: timedelta = timedelta(minutes=30)
    booking_window: timedelta = timedelta(minutes=10)
    """Ten minutes is fixed in the cluster autoscaler, so a longer window here could not be kept."""
    booking_margin: timedelta = timedelta(minutes=1)
    on_staggered: OnStaggered = OnStaggered.RELEASE
    on_stock_out: OnStockOut = OnStockOut.RETRY
    placeholder_image: str = ""
    """What the pods run that keep nodes with `hold`: an image that only waits. Empty = `release`."""
    retry: RetryPolicy = RetryPolicy()
    node_loss_grace: timedelta = timedelta(minutes=2)
    """How long a running gang may lack nodes before it queues again as a whole: a request that has been
    consumed buys no other node. 0 = for ever.
    """
    unreachable_grace: timedelta = timedelta(minutes=5)
    """The same for nodes of which nothing is heard, whose pods may run on: as long as Kubernetes lets pods
    stay on them. 0 = for ever. It does not begin while most nodes are silent.
    """
    lease_notice: timedelta = timedelta(minutes=30)
    """How long before the end of its lease a running gang is notified. 0 = not at all."""
    flavors: tuple[FlavorPolicy, ...] = ()
    kai: KaiPolicy | None = None
    """Set where KAI schedules: the controller then releases gated Ray clusters instead of Workloads."""

    @property
    def holds(self) -> bool:
        """Whether finished requests are kept for siblings that come late."""
        return self.on_staggered is OnStaggered.HOLD and bool(self.placeholder_image)

    def flavor(self, name: str) -> FlavorPolicy | None:
        return next((flavor for flavor in self.flavors if flavor.name == name), None)
