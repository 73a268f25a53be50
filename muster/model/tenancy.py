"""Tenancy: the rights in a team's namespace, and what a team's pods may reach.

Responsible for the settings of a stack and of a team.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from muster.model.keys import Seconds, declared
from muster.model.section import Section
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


def _read_bounds(above: Section, key: str, defaults: Mapping[str, int]) -> Mapping[str, int]:
    section = above.section(key)
    bounds = {
        name: section.integer(name, most) for name, most in defaults.items() if section.get(name) is not None
    }
    section.close()
    return MappingProxyType({name: bound for name, bound in bounds.items() if bound is not None})


def _bounds(description: str, defaults: Mapping[str, int]) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
    properties = {
        name: {**number, "description": f"{description} Default: {most}.", "default": most}
        for name, most in defaults.items()
    }
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """With `capabilities` a policy of Muster's holds the Pod Security Standard in place of the API server's
    plugin. `objects` has the keys of MOST_OBJECTS, `sizes` those of MOST_KIBIBYTES. `parameters`: a job sets
    them by annotation.
    """

    SHORT: ClassVar = "mode"

    mode: TenancyMode = declared(
        "Whether what the policies forbid is refused, warned of, or allowed.", TenancyMode.ENFORCE
    )
    namespaces: Namespaces = declared(
        "Whether Muster makes and guards the namespaces of teams; `existing` does not change them.",
        Namespaces.MANAGED,
    )
    pod_security: PodSecurity = declared(
        "The Pod Security Standard of team namespaces.", PodSecurity.BASELINE
    )
    capabilities: tuple[Capability, ...] = declared(
        "Capabilities that containers of teams may add beyond the standard, such as RDMA needs.",
        (),
        default_text="none",
        example=[Capability.IPC_LOCK.value],
        noun="capability that a team may have: others lead out of the container",
    )
    egress: Egress = declared("What pods may reach outside of their namespace.", Egress.INTERNET)
    reach: tuple[str, ...] = declared(
        "Address ranges that every team may reach as well.", (), default_text="none", example=["10.20.0.0/16"]
    )
    objects: Mapping[str, int] = declared(
        "The maximum number of objects of a kind in a namespace.",
        {},
        read=lambda section, key: _read_bounds(section, key, MOST_OBJECTS),
        schema=lambda _: _bounds("Maximum number of objects of this kind in a namespace.", MOST_OBJECTS),
    )
    sizes: Mapping[str, int] = declared(
        "The maximum size of an object that a team writes, in KiB.",
        {},
        read=lambda section, key: _read_bounds(section, key, MOST_KIBIBYTES),
        schema=lambda _: _bounds("Maximum size of one object of this kind, in KiB.", MOST_KIBIBYTES),
    )
    parameters: tuple[str, ...] = declared(
        "Parameters of ProvisioningRequests that a job may set.", ("maxRunDurationSeconds",)
    )
    default_priority: str | None = declared("The priority of work that names none.", None, example="dev")
    termination_grace: Seconds = declared("The longest time that a pod may take to end.", Seconds(120))
    drain: Drain = declared(
        "Whether the drain of a node waits for the teams' work on it to end, or evicts the work.", Drain.WAITS
    )
    network_probe: bool = declared(
        "Whether `pulumi up` tries with two pods that the network enforces NetworkPolicies, and ends before "
        "it makes any team where it does not.",
        False,
    )


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
    {**{each.word: each.kibibytes for each in FOR_MEMBERS}, "configMaps": 64, "secrets": 64}
)


class BucketRight(StrEnum):
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolumeClaim, which Ray and batch pods mount by its name. `volume`: such as a file store
    that others share; without it the storage class makes one.
    """

    name: str
    size: str = declared("Its size, such as 1Ti.", example="1Ti")
    storage_class: str | None = declared(
        "Its storage class.", None, default_text="that of the cluster", example="filestore"
    )
    volume: str | None = declared("An existing PersistentVolume that it binds.", None, example="datasets")
    shared: bool = declared("Whether several nodes mount it at once, which disks do not allow.", True)
    namespace: str | None = declared(
        "Which of the team's namespaces it is in; required where `namespaces` has several.",
        None,
        default_text="the only one",
        example="vision",
    )


def _read_accounts(section: Section) -> Mapping[str, str | None]:
    return MappingProxyType({name: section.text(name) for name, _ in section.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who works in a team's namespace and what its pods are given. An `identity` keeps the rights that its
    owner gives it; with `buckets` instead one is made for the team.
    """

    members: tuple[str, ...] = declared(
        "Who works in its namespace: groups of the identity provider, `user:NAME`, or ARNs on EKS.",
        (),
        default_text="none",
        example=["vision@example.com", "user:ann@example.com"],
    )
    identity: str | None = declared(
        "An existing cloud identity for its pods: address of a service account, or ARN of a role.",
        None,
        default_text="none, or one that is made for its buckets",
        example="vision@my-project.iam.gserviceaccount.com",
    )
    buckets: Mapping[str, BucketRight] = declared(
        "Bucket: what its pods may do with its objects.",
        {},
        default_text="none",
        example={"vision-checkpoints": "write"},
    )
    accounts: Mapping[str, str | None] = declared(
        "ServiceAccounts that its pods may run as besides `default`: name and existing cloud identity, or "
        "nothing.",
        {},
        key="serviceAccounts",
        default_text="none",
        example={"trainer": "trainer@my-project.iam.gserviceaccount.com"},
        read=lambda above, key: _read_accounts(above.section(key)),
        schema={
            "type": ["object", "null"],
            "additionalProperties": {"type": ["string", "null"], "minLength": 1},
        },
    )
    pull_secrets: tuple[str, ...] = declared(
        "Secrets by which its pods pull images.", (), default_text="none", example=["registry"]
    )
    volumes: tuple[Volume, ...] = declared(
        "Volumes of its namespaces, by name.",
        (),
        default_text="none",
        example={"data": {"size": "1Ti", "storageClass": "files"}},
    )
    default_priority: str | None = declared("The priority of work that names none.", None, example="dev")
