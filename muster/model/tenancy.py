"""Tenancy: the rights in a team's namespace, and what a team's pods may reach.

Responsible for the settings of a stack and of a team. Not responsible for manifests (render/tenancy), for
the cluster's groups (members.py), nor for cloud identities (muster.components).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.work import FOR_MEMBERS


class TenancyMode(StrEnum):
    """What happens when a tenant does what the policies forbid. `warn` allows it with a warning, for a
    cluster that is being migrated. `off` installs no policies; RBAC, quotas and network policies stay.
    """

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


class Namespaces(StrEnum):
    """Whose the namespaces of teams are. `managed`: Muster makes and guards them. `existing`: others make
    them, and Muster keeps the teams' queues in them and nothing else.
    """

    MANAGED = "managed"
    EXISTING = "existing"


class PodSecurity(StrEnum):
    """The Pod Security Standard of team namespaces. Ray's own images run as root: baseline lets them."""

    BASELINE = "baseline"
    RESTRICTED = "restricted"


class Capability(StrEnum):
    """What the Pod Security Standards refuse, and what leads out of no container: `IPC_LOCK` locks memory,
    which RDMA registers with the network card; `SYS_NICE` binds threads and memory to a socket; `SYS_PTRACE`
    looks into processes of the same pod, as profilers do.
    """

    IPC_LOCK = "IPC_LOCK"
    SYS_NICE = "SYS_NICE"
    SYS_PTRACE = "SYS_PTRACE"


class Egress(StrEnum):
    """What pods may reach outside of their namespace, besides DNS and the cloud's identity service."""

    INTERNET = "internet"
    NONE = "none"
    ALL = "all"


class Drain(StrEnum):
    """What happens to running work on a node that is drained. `waits`: it stays until it ends, and the drain
    waits for it or fails. `evicts`: its pods are taken away, and the work starts again elsewhere.
    """

    WAITS = "waits"
    EVICTS = "evicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The stack's settings. `capabilities` are those that a container may add beyond `pod_security`; a policy
    of Muster's then holds the standard in place of the API server's plugin. `reach` are address ranges that
    every team may reach in addition to those of `egress`; `objects` limits the number of objects of a kind in
    a namespace, by the keys of `MOST_OBJECTS`, and `sizes` the KiB of each, by those of `MOST_KIBIBYTES`;
    `parameters` are the ProvisioningRequest parameters that a job may set by annotation; `termination_grace`
    is the most seconds that a pod may take to end. With `network_probe`, teams are made once two pods have
    shown that the network enforces policies.
    """

    mode: TenancyMode = TenancyMode.ENFORCE
    namespaces: Namespaces = Namespaces.MANAGED
    pod_security: PodSecurity = PodSecurity.BASELINE
    capabilities: tuple[Capability, ...] = ()
    egress: Egress = Egress.INTERNET
    reach: tuple[str, ...] = ()
    objects: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    parameters: tuple[str, ...] = ("maxRunDurationSeconds",)
    default_priority: str | None = None
    termination_grace: int = 120
    network_probe: bool = False
    drain: Drain = Drain.WAITS


# Kubernetes gives it to a pod that names none.
DEFAULT_GRACE: Final = 30

# What one team may pile up before it hurts others: etcd and every controller hold all of it.
MOST_OBJECTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **{each.word: each.objects for each in FOR_MEMBERS},
        "pods": 5000,
        "configMaps": 1000,
        "secrets": 500,
        "services": 1500,
        "volumeClaims": 100,
    }
)


# The KiB of one object, as its author writes it. With these counts a team stores half a GiB at most: etcd
# holds 2 GiB by default, 8 at most, and the API server would take 1.5 MiB of each object.
MOST_KIBIBYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        **{each.word: each.kibibytes for each in FOR_MEMBERS},
        "configMaps": 64,
        "secrets": 64,
    }
)


class BucketRight(StrEnum):
    """What a team may do with a bucket's objects."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolumeClaim in a namespace of the team, which Ray and batch pods mount by its name.

    `size` as Kubernetes writes it. `volume` binds one PersistentVolume that exists (a file store that others
    share); otherwise the storage class makes one. `namespace`: which of the team's it is in; None where the
    team has one.
    """

    name: str
    size: str
    storage_class: str | None = None
    volume: str | None = None
    shared: bool = True
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who works in a team's namespace and what its pods are given.

    `members` are groups of the identity provider, `user:<name>` for one person, and on EKS also ARNs of IAM
    principals. `identity` is a cloud identity that exists (a Google service account's address, an IAM role's
    ARN), and keeps the rights that its owner gives it; with `buckets` instead one is made for the team.

    `accounts`: further ServiceAccounts that pods may run as, each with a cloud identity that exists, or None.
    """

    members: tuple[str, ...] = ()
    identity: str | None = None
    buckets: Mapping[str, BucketRight] = field(default_factory=lambda: MappingProxyType({}))
    accounts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    pull_secrets: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    default_priority: str | None = None
