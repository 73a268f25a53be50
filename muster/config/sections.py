"""Sections of a stack file that are read by more than the declaration of their keys.

The allowance of a team or a department (quota, borrow, lend, weight): an amount is a number of GPUs on a GPU
pool, CPUs on a CPU pool, or a mapping with `gpus`, `cpu`, `memory` and `resources` of any other name; for a
quota also `unlimited`.

`muster:versions`, `muster:charts`, `muster:image` and `muster:images`: how a version and a source are
written.

`node` of a pool: what one node has. In an existing cluster it stands in place of a machine type, on GKE and
EKS beside one that no table has. A known accelerator has the memory of its table.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.artifacts.catalogue import catalogue
from muster.model import names
from muster.model.accelerators import (
    ACCELERATORS,
    Accelerator,
    accelerators_of,
    own_accelerator,
    vendor_resource,
)
from muster.model.clusters import Cluster, ExistingCluster
from muster.model.keys import declared, read_part
from muster.model.machines import AMD64, ARM64, MOST_GPUS, Machine, cloud_machine, own_machine
from muster.model.pools import Pool
from muster.model.programs import ChartOrigin, ChartSource, ImageSource, Program
from muster.model.quantities import (
    MIB,
    QUANTITY_PATTERN,
    Bytes,
    Gpus,
    Millicores,
    many,
    parse_cpu,
    parse_memory,
)
from muster.model.queues import Allowance, Amount, Bound, Limit, Share
from muster.model.regions import Provider
from muster.model.section import Section, describe_value
from muster.model.stack import VersionLevel
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import is_dns_label

Pools = Mapping[str, Pool]

# How other programs write that there is no bound.
_UNLIMITED: Final = "unlimited"
_UNBOUNDED: Final = (-1, "-1", _UNLIMITED, "infinite", "inf", "max", "all")
_OF_QUOTA: Final = (
    f"write `{_UNLIMITED}` for no bound, or the amount that is guaranteed; `borrow: all` lets the team use "
    "all that is idle besides."
)
_ALL: Final = "write `all` for as much as others lend."


def parse_allowance(section: Section, pools: Pools) -> Allowance:
    """The four keys that teams and departments share. The caller reads the others and closes the section."""
    amounts = _amounts(section, pools)
    quota = {name: parse_amount(amounts, name, value, pools) for name, value in amounts.items()}
    return read_part(
        Allowance,
        section,
        quota=MappingProxyType({name: amount for name, amount in quota.items() if amount is not None}),
        borrow=_limit(section, "borrow", pools),
        lend=_limit(section, "lend", pools),
    )


def _amounts(section: Section, pools: Pools) -> Section:
    value = section.get("quota")
    if isinstance(value, int | float | str):
        message = f"must be a mapping from pools to amounts, is {describe_value(value)}."
        pool = next((name for name, each in pools.items() if each.is_gpu), "POOL")
        section.note("quota", message, f"name the pool: {{{pool}: {value}}}.")
        return Section(None, at(section.path, "quota"), section.found)
    return section.section("quota")


def _limit(section: Section, key: str, pools: Pools) -> Limit:
    value = section.get(key)
    if value is None:
        return Limit()
    if isinstance(value, str | int | float):
        bound = _bound(value)
        if bound is None:
            section.note(
                key, f"is {describe_value(value)}.", "write `none`, `all`, or amounts by pool: {l4: 2}."
            )
        return Limit(otherwise=bound)
    shares = section.section(key)
    found: dict[str, Share | None] = {}
    for name, share in shares.items():
        bound = _bound(share)
        found[name] = bound if bound is not None else parse_amount(shares, name, share, pools)
    return Limit(pools=MappingProxyType({name: share for name, share in found.items() if share is not None}))


def _bound(value: object) -> Bound | None:
    return Bound(value) if isinstance(value, str) and value in (Bound.NONE, Bound.ALL) else None


def parse_amount(section: Section, pool: str, value: object, pools: Pools) -> Amount | None:
    """Read `value` as an amount of `pool`. An unknown pool is read as a GPU pool; a rule reports it."""
    if isinstance(value, Mapping):
        return _detailed(Section(value, at(section.path, pool), section.found))
    is_quota = section.path.endswith(".quota")
    if is_quota and value == _UNLIMITED:
        return Amount(is_unlimited=True)
    if value in _UNBOUNDED:
        section.note(pool, f"is {describe_value(value)}, and has a bound.", _OF_QUOTA if is_quota else _ALL)
        return None
    known = pools.get(pool)
    if known is None or known.is_gpu:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return Amount(gpus=Gpus(value))
        if known is not None:
            digits = isinstance(value, str) and value.isdecimal()
            fix = f"write it without quotes: {value}." if digits else "write it like 4."
            section.note(pool, f"must be a whole number of GPUs, is {describe_value(value)}.", fix)
        return Amount() if known is None else None
    cpu = _allowed_cpu(section, pool, is_required=True)
    return None if cpu is None else Amount(cpu=cpu)


def _detailed(section: Section) -> Amount:
    gpus = section.integer("gpus", -1, least=0)
    cpu = _allowed_cpu(section, "cpu")
    fix = "write it like 512Mi or 16Gi."
    memory = section.parsed("memory", parse_memory, noun="an amount of memory", fix=fix)
    others = section.section("resources")
    named = {name: others.quantity(name) for name, _ in others.items()}
    section.close()
    return Amount(
        gpus=None if gpus in (None, -1) else Gpus(gpus),
        cpu=cpu,
        memory=memory,
        others=MappingProxyType({name: amount for name, amount in named.items() if amount is not None}),
    )


def _allowed_cpu(section: Section, key: str, *, is_required: bool = False) -> Millicores | None:
    fix = "write CPUs or thousandths: 4, 1.5 or 500m."
    return section.parsed(key, parse_cpu, noun="an amount of CPU", fix=fix, is_required=is_required)


_ONE: Final = "write one of `mirror:` and `path:`, or neither for each project's own repository."

# Key of `muster:versions` -> program. `kubernetes` beside them is the cluster's own version.
VERSION_KEYS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "kueue": Program.KUEUE,
        "kai": Program.KAI,
        "kuberay": Program.KUBERAY,
        "gpuOperator": Program.GPU_OPERATOR,
    }
)
KUBERNETES: Final = "kubernetes"


def parse_versions(section: Section) -> tuple[Mapping[str, str], str | None, VersionLevel | None]:
    """Program -> version, the version of Kubernetes, and how well they have to be known."""
    level = section.choice("require", VersionLevel) if section.has("require") else None
    named = {program.value: section.text(key) for key, program in VERSION_KEYS.items()}
    kubernetes = section.text(KUBERNETES)
    section.close()
    versions = MappingProxyType({name: text for name, text in named.items() if text is not None})
    return versions, kubernetes, level


def with_kubernetes(cluster: Cluster | None, version: str | None, *, root: Section) -> Cluster | None:
    """The cluster with the version of `muster:versions.kubernetes`, which is `muster:cluster.version` in
    another place: one of them is written.
    """
    if cluster is None or version is None:
        return cluster
    section = root.section("versions")
    if isinstance(cluster, ExistingCluster):
        section.note(KUBERNETES, "is the version of a cluster that Muster does not make.", "remove it.")
        return cluster
    if root.section("cluster").has("version"):
        section.note(KUBERNETES, "is written beside `muster:cluster.version`.", "remove one of them.")
        return cluster
    return replace(cluster, version=version)


def as_written(violations: Iterable[Violation], root: Section) -> Iterator[Violation]:
    """The violations, those of the cluster's version at the key that has it."""
    for each in violations:
        is_version = each.path == "muster:cluster.version" and not root.section("cluster").has("version")
        if is_version and (section := root.section("versions")).has(KUBERNETES):
            yield replace(each, path=at(section.path, KUBERNETES))
        else:
            yield each


def parse_charts(section: Section) -> ChartSource:
    """Where charts come from. An empty section means each project's own repository."""
    mirror, path = section.text("mirror"), section.text("path")
    digests = _read_catalogued(section.section("digests"), catalogue().charts, noun="chart")
    section.close()
    if mirror and path:
        section.note("path", "is written together with `mirror`.", _ONE)
    if mirror:
        return ChartSource(origin=ChartOrigin.MIRROR, location=mirror, digests=digests)
    if path:
        return ChartSource(origin=ChartOrigin.FOLDER, location=path, digests=digests)
    return ChartSource(digests=digests)


def parse_images(root: Section) -> ImageSource:
    """The controller's image and those of other projects. The project file sets `muster:image` to "" for
    none.
    """
    ours = None if root.get("image") == "" else root.text("image")
    section = root.section("images")
    mirror = section.text("mirror")
    pinned = _read_catalogued(section, catalogue().images, noun="image", besides=("mirror",))
    return ImageSource(gang_admission=ours, mirror=mirror, pinned=pinned)


def _read_catalogued(
    section: Section, names: Iterable[str], *, noun: str, besides: tuple[str, ...] = ()
) -> MappingProxyType[str, str]:
    """The section's texts, for names that the catalogue has."""
    known = tuple(names)
    found: dict[str, str] = {}
    said = [key for key, _ in section.items() if key not in besides]
    for key in said:
        if key not in known:
            section.note(key, f"is not a {noun} that Muster installs.", suggestion(key, known, noun=noun))
        elif (value := section.text(key)) is not None:
            found[key] = value
    return MappingProxyType(found)


EXAMPLE: Final = "node: {cpu: 96, memory: 1Ti, gpus: 8, accelerator: nvidia-h100-80gb}"
# Muster makes nodes with these on the cloud. TPUs come in slices, which `machine` and `topology` describe.
_MADE: Final = {
    Provider.GKE: (names.GPU_RESOURCE,),
    Provider.EKS: (names.GPU_RESOURCE, names.NEURON_RESOURCE),
    Provider.EXISTING: (names.GPU_RESOURCE, names.AMD_RESOURCE, names.NEURON_RESOURCE),
}
_MOST_DISKS: Final = 64


_AMOUNT: Final = {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN}


class Architecture(StrEnum):
    """Of a CPU, as Kubernetes names it."""

    AMD64 = AMD64
    ARM64 = ARM64


_IN_CPU: Final = "write CPUs or thousandths: 96, 1.5 or 500m."
_IN_MEMORY: Final = "write it with its unit: 512Gi or 1Ti."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNode:
    """`cpu` and `memory` are None where they are malformed, which was reported."""

    cpu: Millicores | None = declared(
        "The CPUs that pods can request on one node; on GKE and EKS the machine's vCPUs.",
        example=96,
        read=lambda section, _: _node_cpu(section),
        schema=_AMOUNT,
    )
    memory: Bytes | None = declared(
        "The memory that pods can request on one node; on GKE and EKS the machine's memory.",
        example="1Ti",
        read=lambda section, key: _node_memory(section, key, required=True),
        schema=_AMOUNT,
    )
    gpus: int = declared("The GPUs of one node, or its Neuron devices.", 0, example=8, maximum=MOST_GPUS)
    accelerator: str | None = declared(
        "The GPU: one that Muster knows, or nvidia-NAME or amd-NAME with `gpuMemory`.",
        None,
        default_text="no GPU",
        example="nvidia-h100-80gb",
        read=lambda section, key: section.text(key, example="nvidia-l4"),
        schema={"type": "string", "minLength": 1},
    )
    gpu_memory: Bytes | None = declared(
        "The memory of one GPU.",
        None,
        default_text="that of the accelerator",
        example="80Gi",
        read=lambda section, key: _node_memory(section, key),
        schema=_AMOUNT,
    )
    local_disks: int = declared(
        "The machine's local disks (GKE, EKS); on EKS 1 for any number.", 0, example=8, maximum=_MOST_DISKS
    )
    efa: int = declared("The machine's EFA interfaces (EKS).", 0, example=8, maximum=_MOST_DISKS)
    architecture: Architecture = declared(
        "The architecture of the machine's CPU (GKE, EKS).", Architecture.AMD64, example=ARM64
    )
    labels: Mapping[str, str] = declared(
        "Labels that the nodes have already, besides muster.dev/pool; the pool's ResourceFlavor selects "
        "them.",
        {},
        default_text="none",
        example={"example.com/fabric": "infiniband"},
    )


def parse_own_node(section: Section, provider: Provider, name: str) -> Machine | None:
    """The machine that the section describes, or None if it is malformed and was reported. `name`: the
    machine type, "" in an existing cluster.
    """
    before = len(section.found)
    node = read_part(OwnNode, section)
    gpu = _node_gpu(section, node, provider)
    _refuse_beside_machine(section, provider, node)
    section.close()
    if node.cpu is None or node.memory is None or len(section.found) > before:
        return None
    if provider is Provider.EXISTING:
        return own_machine(cpu=node.cpu, memory=node.memory, gpus=node.gpus, gpu=gpu, labels=node.labels)
    return cloud_machine(
        name,
        provider,
        cpu=node.cpu,
        memory=node.memory,
        gpus=node.gpus,
        gpu=gpu,
        local_disks=node.local_disks,
        efa=node.efa,
        architecture=node.architecture.value,
    )


def _refuse_beside_machine(section: Section, provider: Provider, node: OwnNode) -> None:
    """Keys that mean nothing on this provider."""
    if provider is not Provider.EXISTING:
        if node.labels:
            fix = "write them as `labels` of the pool."
            section.note("labels", "are those of nodes that exist already.", fix)
        if node.efa and provider is not Provider.EKS:
            section.note("efa", "EFA is EC2's.", "remove it.")
        return
    made = {"localDisks": node.local_disks, "efa": node.efa, "architecture": node.architecture}
    for key, value in made.items():
        if value not in (0, Architecture.AMD64):
            section.note(key, "Muster does not make the nodes of an existing cluster.", "remove it.")


def _node_cpu(section: Section) -> Millicores | None:
    if section.get("cpu") is None:
        section.note("cpu", "is missing: the CPUs that pods can request on one node.", _IN_CPU)
    cpu = section.parsed("cpu", parse_cpu, noun="an amount of CPU", fix=_IN_CPU)
    if cpu == 0:
        section.note("cpu", "is 0: no pod runs there.", _IN_CPU)
    return cpu


def _node_memory(section: Section, key: str, *, required: bool = False) -> Bytes | None:
    """At least a MiB: less is a number without its unit."""
    value = section.get(key)
    if value is None and required:
        message = "is missing: the memory that pods can request on one node."
        section.note(key, message, _IN_MEMORY)
    size = section.parsed(key, parse_memory, noun="an amount of memory", fix=_IN_MEMORY)
    if size is None or size >= MIB:
        return size
    section.note(key, f"is {describe_value(value)}, which is {size} bytes.", _IN_MEMORY)
    return None


def _node_gpu(section: Section, node: OwnNode, provider: Provider) -> Accelerator | None:
    gpus, written, memory = node.gpus, node.accelerator, node.gpu_memory
    if not gpus:
        for key in ("accelerator", "gpuMemory"):
            if section.has(key):
                section.note(
                    key, "is written, but the node has no `gpus`.", f"write `gpus: 8`, or remove `{key}`."
                )
        return None
    if not section.has("accelerator"):
        section.note(
            "accelerator", f"is missing: a node has {many(gpus, 'GPU')}.", "write it like nvidia-h100-80gb."
        )
    if written is None:
        return None
    name, *_ = accelerators_of(written) or (written,)
    if name in ACCELERATORS and ACCELERATORS[name].is_tpu:
        message = "TPUs are nodes of GKE, which `machine` and `topology` describe."
        section.note("accelerator", message, "write `machine: ct6e-standard-4t` in place of `node`.")
        return None
    resource = ACCELERATORS[name].resource if name in ACCELERATORS else _unknown_resource(name)
    if not resource or (name not in ACCELERATORS and memory is None):
        _unknown_accelerator(section, name, provider)
        return None
    if resource not in _MADE[provider]:
        message = f"Muster makes no nodes with {resource} on provider {provider}."
        section.note("accelerator", message, "use `provider: existing` for a cluster that has such nodes.")
        return None
    return own_accelerator(name, memory // MIB if memory else ACCELERATORS[name].memory_mib)


def _unknown_resource(name: str) -> str:
    return vendor_resource(name) if is_dns_label(name) else ""


def _unknown_accelerator(section: Section, name: str, provider: Provider) -> None:
    """A GPU that no table has is allowed, with the memory that it has: its vendor's others are counted
    alike.
    """
    choices = [each.name for each in ACCELERATORS.values() if each.resource in _MADE[provider]]
    known = suggestion(name, choices, noun="accelerator")
    if _unknown_resource(name):
        message = f"{name!r} is unknown, and so is its memory."
        section.note("accelerator", message, f"add its memory, `gpuMemory: 48Gi`; or {known}")
    else:
        message = f"{name!r} is unknown, and so is the resource that its nodes advertise."
        fix = f"{known} Another one is written nvidia-NAME or amd-NAME, with `gpuMemory`."
        section.note("accelerator", message, fix)
