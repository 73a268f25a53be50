"""Reads a whole stack.

Responsible for which keys a stack has, and for reporting malformed keys and violated rules together. Each key
has its own reader.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from muster import paths
from muster.config.document import NAMESPACE, ConfigError, Document, decode_value
from muster.config.project import load_adjacent_clusters, load_document, load_handed_over
from muster.config.sections import (
    EXAMPLE,
    Pools,
    as_written,
    parse_allowance,
    parse_charts,
    parse_images,
    parse_own_node,
    parse_versions,
    with_kubernetes,
)
from muster.errors import ExitCode, MusterError
from muster.model.capacity import PROVISIONING_CLASSES, Capacity
from muster.model.clusters import Cluster, EksCluster, ExistingCluster, GkeCluster, Provider
from muster.model.gangpolicy import GangPolicy, violations
from muster.model.keys import keys, read
from muster.model.machines import Machine, machines_of
from muster.model.pools import (
    IMAGES,
    MIG_PROFILES,
    MOST_GPUS_PER_NODE,
    GpuSharing,
    Image,
    LocalDisks,
    Placement,
    PlacementGroup,
    Pool,
    Sharing,
)
from muster.model.queues import Department, Team
from muster.model.regions import NodeCloud
from muster.model.section import Section
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation import check, check_incomplete
from muster.validation.machines import OF_A_MACHINE, Choice, beside_node, gpus_of, made_of

# Reads `muster:pools`.


def parse_pool(section: Section, name: str, cluster: Cluster | None) -> Pool | None:
    """One pool, or None if it is malformed and was reported."""
    machine, gpus = _machine(section, cluster.provider if cluster else Provider.EXISTING)
    capacity, *fallback = _capacity(section)
    placement, group = _placement(section)
    pool = read(
        Pool,
        section,
        name=name,
        machine=machine,
        gpus_per_node=gpus,
        capacity=capacity,
        fallback=tuple(fallback),
        placement=placement,
        placement_group=group,
        **_node_defaults(section, machine, cluster),
    )
    if pool is None or machine is None:
        return None
    provisioning_class = pool.provisioning_class
    if provisioning_class is None and capacity is Capacity.QUEUED and cluster is not None:
        provisioning_class = PROVISIONING_CLASSES[cluster.provider][0]
    return replace(
        pool,
        provisioning_class=provisioning_class,
        sharing=_sharing(section, pool.sharing, machine),
        topology=pool.topology or next(iter(machine.topologies), None),
    )


def _node_defaults(section: Section, machine: Machine | None, cluster: Cluster | None) -> dict[str, Any]:
    """What follows from the provider and the machine where it is not written."""
    images = IMAGES[cluster.provider] if cluster is not None else ()
    image = section.choice("image", Image, images[0] if images else Image.COS)
    # Auto Mode chooses interfaces and disks by itself.
    is_chosen = cluster is not None and cluster.is_ours and not cluster.is_auto
    disks = LocalDisks.EPHEMERAL if is_chosen and machine and machine.local_disks else LocalDisks.NONE
    return {
        "image": image if images or section.has("image") else None,
        "local_disks": section.choice("localDisks", LocalDisks, disks) or disks,
        "efa": section.flag("efa", is_chosen and machine is not None and machine.efa_by_default),
    }


def _placement(section: Section) -> tuple[Placement, str | None]:
    """A word, or a mapping with the existing `group` in which the nodes are compact."""
    if not isinstance(section.get("placement"), Mapping):
        return section.choice("placement", Placement, Placement.ANY) or Placement.ANY, None
    placement = read(PlacementGroup, section.section("placement"))
    return Placement.COMPACT, placement.group if placement else None


def _capacity(section: Section) -> tuple[Capacity, ...]:
    """One way to buy nodes, or several in the order in which they are tried."""
    if not isinstance(section.get("capacity"), list):
        return (section.choice("capacity", Capacity, Capacity.ON_DEMAND) or Capacity.ON_DEMAND,)
    words = section.words("capacity")
    allowed = [each.value for each in Capacity]
    unknown = [word for word in words if word not in allowed]
    for word in unknown:
        fix = suggestion(word, allowed, noun="capacity")
        section.note("capacity", f"has {word!r}, which is not allowed.", fix)
    if len(set(words)) < len(words):
        section.note("capacity", "names one way to buy nodes twice.", "write each once.")
    return tuple(Capacity(word) for word in words if word not in unknown) or (Capacity.ON_DEMAND,)


def _machine(section: Section, provider: Provider) -> tuple[Machine | None, int]:
    """The pool's machine, None if it is malformed and was reported, and the GPUs of one node."""
    described = section.section("node")
    if section.has("node"):
        name = section.text("machine", example="g2-standard-8") if section.has("machine") else None
        machine = parse_own_node(described, provider, name or "")
        found = beside_node(section.path, provider, name, {key for key in OF_A_MACHINE if section.has(key)})
        section.found.extend(found)
        for key in OF_A_MACHINE:
            section.get(key)
        return (None, 0) if machine is None or found else (machine, sum(machine.gpu_counts))
    choice = _choice(section, provider)
    wrong = made_of(choice, section.path) if choice.machine else []
    section.found.extend(wrong)
    if not choice.machine or wrong:
        return None, 0
    return machines_of(provider)[choice.machine], gpus_of(choice)


def _choice(section: Section, provider: Provider) -> Choice:
    """The machine, accelerator and GPU count that the pool names. `machine` is "" when it is missing."""
    gpus = section.integer("gpusPerNode", -1, most=MOST_GPUS_PER_NODE)
    example = min(name for name, each in machines_of(provider).items() if each.accelerator == "nvidia-l4")
    may_describe = provider is Provider.EXISTING and not section.has("machine")
    if may_describe:
        fix = f"describe the nodes, `{EXAMPLE}`, or write `machine:` and a cloud's machine type."
        section.note("machine", "is missing.", fix)
    return Choice(
        provider=provider,
        machine=section.text("machine", required=not may_describe, example=example) or "",
        accelerator=section.text("accelerator", example="nvidia-l4"),
        gpus=None if gpus == -1 else gpus,
    )


def _sharing(section: Section, sharing: GpuSharing, machine: Machine) -> GpuSharing:
    """How a GPU is shared; the number of MIG instances follows from the profile."""
    if sharing.kind is not Sharing.MIG:
        return sharing
    if section.has("shares"):
        section.note("shares", "follows from the MIG profile.", "remove it.")
    profiles = MIG_PROFILES.get(machine.accelerator or "", {})
    return replace(sharing, shares=profiles.get(sharing.profile or "", 1))


# Reads `muster:gangAdmission`: the mode alone, or a mapping with the settings of Muster's controller.

_KEY: Final = "gangAdmission"


def parse_gang(root: Section) -> GangAdmission:
    """`muster`, `builtin` or `off`; or a mapping with the fields of GangPolicy and `mode`.

    Flavors are not written here, because they come from the pools.
    """
    if isinstance(root.get(_KEY), str | bool):
        return GangAdmission(mode=root.choice(_KEY, GangMode, GangMode.MUSTER) or GangMode.MUSTER)
    section = root.section(_KEY)
    mode = section.choice("mode", GangMode, GangMode.MUSTER) or GangMode.MUSTER
    if section.has("flavors"):
        fix = "remove it; set `provisioningClass` and `parameters` of the pool instead."
        section.note("flavors", "come from muster:pools and are not written here.", fix)
    policy = read(GangPolicy, section, flavors=(), compared_labels=(), idle={}) or GangPolicy()
    root.found.extend(violations(policy, path=section.path))
    return GangAdmission(mode=mode, policy=policy)


# Reads `muster:departments`: the queue tree, to any depth.


def _department(section: Section, name: str, pools: Pools) -> Department:
    """A department and everything below it."""
    department = read(
        Department,
        section,
        name=name,
        allowance=parse_allowance(section, pools),
        departments=section.each("departments", lambda child, key: _department(child, key, pools)),
        teams=section.each("teams", lambda child, key: _team(child, key, pools)),
    )
    return department or Department(name=name)


def _team(section: Section, name: str, pools: Pools) -> Team:
    """A team. Everything but its quota has a default."""
    team = read(Team, section, name=name, allowance=parse_allowance(section, pools))
    return team or Team(name=name, namespace=name)


# Reads `muster:cluster`, whose keys depend on its provider.

CLASSES: Final[Mapping[Provider, Callable[..., Cluster]]] = {
    Provider.GKE: GkeCluster,
    Provider.EKS: EksCluster,
    Provider.EXISTING: ExistingCluster,
}


def parse_cluster(section: Section) -> Cluster | None:
    """The cluster, or None if it is malformed and was reported."""
    provider = section.choice("provider", Provider)
    if provider is None:
        return None
    own = {*_cluster_keys(provider), *getattr(CLASSES[provider], "REFUSED", ())}
    for name in section.written:
        is_ours = name in own or f"{name}s" in own  # A slip of our own key is answered with that key.
        if not is_ours and (others := [other for other in Provider if name in _cluster_keys(other)]):
            message = f"is a key of provider {' and '.join(others)}, and the provider here is {provider}."
            section.note(name, message, f"remove it; `muster explain cluster` lists the keys of {provider}.")
            section.get(name)  # Answered: `close` does not report it again.
    return read(CLASSES[provider], section)


def _cluster_keys(provider: Provider) -> frozenset[str]:
    return frozenset(key.path[0] for key in keys(CLASSES[provider]))


def load(path: str | Path) -> Stack:
    """Read the stack file at `path`. Raises ConfigError with every violation."""
    return _stack(load_document(Path(path)))


def parse(values: Mapping[str, object], *, source: str | Path) -> Stack:
    """Read a stack from the values that the Pulumi engine passes. Keys may have the namespace
    (`muster:pools`) or not, and an object may be its JSON text. `source` is the stack file; it is read only
    for line numbers and does not have to exist. What the stack extends is read from the same folder.
    """
    named = {key if ":" in key else f"{NAMESPACE}{key}": decode_value(value) for key, value in values.items()}
    ours = {key: value for key, value in named.items() if key.startswith(NAMESPACE)}
    return _stack(load_handed_over(Path(source), ours))


def examine(document: Document) -> tuple[Stack | None, list[Violation]]:
    """The stack, if it could be read, and every violation, warnings included.

    If the cluster or a pool could not be read, only the rules of `check_incomplete` run.
    """
    found = list(document.violations)
    if found and not document.values:
        return None, found
    root = Section(
        {key.removeprefix(NAMESPACE): value for key, value in document.values.items()}, NAMESPACE, found
    )
    stack, is_sound = _read(root)
    if is_sound:
        adjacent = load_adjacent_clusters(document.source, naming=stack.cluster.name)
        name = paths.stack_name(Path(document.source))
        broken = list(as_written(check(stack, adjacent=adjacent, today=today(), name=name), root))
        if any(".quota" in each.path and each.level == "error" for each in (*found, *broken)):
            # A wrong quota would make each team that borrows of its pool a second mistake.
            borrowed = tuple(f".borrow.{pool.name}" for pool in stack.pools)
            broken = [each for each in broken if not each.path.endswith(borrowed)]
        return stack, [*found, *broken]
    found.extend(as_written(check_incomplete(stack), root))
    return None, found


def read_values(values: Mapping[str, object]) -> Stack:
    """The stack that values without the namespace are, as far as they can be read. No rule judges it."""
    return _read(Section(dict(values), NAMESPACE, []))[0]


def _stack(document: Document) -> Stack:
    stack, found = examine(document)
    errors = [violation for violation in found if violation.level == "error"]
    if errors or stack is None:
        raise ConfigError(errors, document)
    return stack


def _read(root: Section) -> tuple[Stack, bool]:
    """The stack as far as it can be read, and whether its cluster and all of its pools were read."""
    versions, kubernetes, level = parse_versions(root.section("versions"))
    cluster = with_kubernetes(parse_cluster(_required(root, "cluster")), kubernetes, root=root)
    pools = _pools(_required(root, "pools"), cluster)
    sound = MappingProxyType({name: pool for name, pool in pools.items() if pool is not None})
    _required(root, "departments")
    root.get("extends")  # Read before the values are: extends.py.
    stack = read(
        Stack,
        root,
        cluster=cluster or ExistingCluster(name=""),
        pools=tuple(sound.values()),
        departments=root.each("departments", lambda section, name: _department(section, name, sound)),
        gang_admission=parse_gang(root),
        versions=versions,
        version_level=level,
        charts=parse_charts(root.section("charts")),
        images=parse_images(root),
    )
    assert stack is not None  # No key of it is required.
    stack = _with_variable(_with_cloud(stack))
    return stack, cluster is not None and root.has("pools") and len(sound) == len(pools)


def _required(root: Section, key: str) -> Section:
    if not root.has(key):
        fix = f"write `{NAMESPACE}{key}:`; `muster new` writes a file with every key."
        root.note(key, "is missing.", fix)
    return root.section(key)


def _pools(section: Section, cluster: Cluster | None) -> dict[str, Pool | None]:
    return {
        name: parse_pool(Section(value, at(section.path, name), section.found), name, cluster)
        for name, value in section.items()
    }


def _with_cloud(stack: Stack) -> Stack:
    """Where a stack installs the GPU Operator and names no cloud, the operator brings all of its parts."""
    cluster = stack.cluster
    if isinstance(cluster, ExistingCluster) and cluster.cloud is None and stack.gpu_operator.install:
        return replace(stack, cluster=replace(cluster, cloud=NodeCloud.OTHER))
    return stack


def _with_variable(stack: Stack) -> Stack:
    """KAI's parts of GPUs reach a container by a variable, in every pool."""
    if not stack.kai.gpu_sharing:
        return stack
    return replace(stack, pools=tuple(replace(pool, by_variable=True) for pool in stack.pools))


# Today's date, which a build can set.


VARIABLE: Final = "MUSTER_TODAY"
"""A date such as 2026-11-23: a build of an old commit gives the warnings of its day."""


def today() -> date:
    """The date in UTC, or that of MUSTER_TODAY."""
    text = os.environ.get(VARIABLE, "")
    try:
        return date.fromisoformat(text) if text else datetime.now(UTC).date()
    except ValueError:
        raise MusterError(
            f"{VARIABLE}={text} is no date.",
            fix="write it like 2026-11-23, or unset it.",
            exit_code=ExitCode.UNUSABLE,
        ) from None
