"""Reads a whole stack.

Responsible for which keys a stack has, and for reporting malformed keys and violated rules together. Each key
has its own reader.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from muster import paths
from muster.config.adjacent_stacks import load_adjacent_clusters
from muster.config.allowances import Pools
from muster.config.charts import as_written, parse_charts, parse_images, parse_versions, with_kubernetes
from muster.config.clusters import parse_cluster
from muster.config.departments import parse_department
from muster.config.document import NAMESPACE, Document, decode_value
from muster.config.errors import ConfigError
from muster.config.gang import parse_gang
from muster.config.pools import parse_pool
from muster.config.project import load_document, load_handed_over
from muster.config.today import today
from muster.model.clusters import Cluster, ExistingCluster
from muster.model.keys import read
from muster.model.pools import Pool
from muster.model.providers import NodeCloud
from muster.model.queues import Department
from muster.model.section import Section
from muster.model.stack import Stack
from muster.model.violations import Violation, at
from muster.validation import check, check_incomplete


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
        found.extend(as_written(check(stack, adjacent=adjacent, today=today(), name=name), root))
        return stack, found
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
        departments=tuple(sorted(_departments(root, sound), key=lambda department: department.name)),
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


def _departments(root: Section, pools: Pools) -> tuple[Department, ...]:
    return root.each("departments", lambda section, name: parse_department(section, name, pools))


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
