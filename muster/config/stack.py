"""Reads a whole stack.

Responsible for which keys a stack has, and for reporting malformed keys and violated rules together. Each key
has its own reader.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from muster import paths
from muster.config import bounds
from muster.config.adjacent_stacks import load_adjacent_clusters
from muster.config.allowances import Pools
from muster.config.charts import as_written, parse_charts, parse_images, parse_versions, with_kubernetes
from muster.config.clusters import parse_cluster
from muster.config.departments import parse_department
from muster.config.document import NAMESPACE, Document, decode_value
from muster.config.errors import ConfigError
from muster.config.gang import parse_gang
from muster.config.kai import parse_kai
from muster.config.kueue import parse_kueue
from muster.config.observability import parse_observability
from muster.config.pools import parse_pool
from muster.config.project import load_document, load_handed_over
from muster.config.recording import parse_recording
from muster.config.section import Section
from muster.config.tenancy import parse_tenancy
from muster.config.today import today
from muster.model.clusters import Cluster, ExistingCluster
from muster.model.pools import Pool
from muster.model.priorities import Priority
from muster.model.programs import ProgramOptions
from muster.model.providers import NodeCloud
from muster.model.queues import Department
from muster.model.ray import FIRST_WITH_TOKEN, Ray, RayAuth
from muster.model.stack import ArtifactSource, PodsReady, Scheduler, Stack
from muster.model.versions import Version
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


def _stack(document: Document) -> Stack:
    stack, found = examine(document)
    errors = [violation for violation in found if violation.level == "error"]
    if errors or stack is None:
        raise ConfigError(errors, document)
    return stack


def _read(root: Section) -> tuple[Stack, bool]:
    """The stack as far as it can be read, and whether its cluster and all of its pools were read."""
    versions, kubernetes, level = parse_versions(root.section("versions"))
    gpu_operator = _program(root.section("gpuOperator"), ProgramOptions(install=None))
    cluster = with_kubernetes(parse_cluster(_required(root, "cluster")), kubernetes, root=root)
    cluster = _with_cloud(cluster, gpu_operator)
    pools = _pools(_required(root, "pools"), cluster)
    kai = parse_kai(root.section("kai"))
    sound = MappingProxyType(
        {name: replace(pool, by_variable=kai.gpu_sharing) for name, pool in pools.items() if pool is not None}
    )
    _required(root, "departments")
    root.get("extends")  # Read before the values are: extends.py.
    stack = Stack(
        cluster=cluster or ExistingCluster(name=""),
        pools=tuple(sound.values()),
        departments=tuple(sorted(_departments(root, sound), key=lambda department: department.name)),
        priorities=_priorities(root.section("priorities")),
        scheduler=root.choice("scheduler", Scheduler, Scheduler.KUEUE) or Scheduler.KUEUE,
        gang_admission=parse_gang(root),
        pods_ready=_pods_ready(root.section("podsReady")),
        tenancy=parse_tenancy(root),
        artifacts=root.choice("artifacts", ArtifactSource, ArtifactSource.UPSTREAM)
        or ArtifactSource.UPSTREAM,
        ray=_ray(root.section("ray")),
        versions=versions,
        version_level=level,
        charts=parse_charts(root.section("charts")),
        images=parse_images(root),
        kai=kai,
        kueue=parse_kueue(root.section("kueue")),
        observability=parse_observability(root.section("observability")),
        recording=parse_recording(root.section("recording")),
        kuberay=_program(root.section("kuberay"), ProgramOptions()),
        gpu_operator=gpu_operator,
    )
    root.close()
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


def _priorities(section: Section) -> tuple[Priority, ...]:
    read = [_priority(section, name, value) for name, value in section.items()]
    return tuple(priority for priority in read if priority is not None)


def _priority(above: Section, name: str, said: object) -> Priority | None:
    """A value, or a mapping of `value` and `description`."""
    section = above.section(name) if isinstance(said, Mapping) else None
    holder, key = (above, name) if section is None else (section, "value")
    value = holder.integer(key, **bounds.ANY)
    description = "" if section is None else section.text("description") or ""
    if section is not None:
        section.close()
    return None if value is None else Priority(value, name, description)


def _ray(section: Section) -> Ray:
    known = Ray()
    auth = section.choice("auth", RayAuth, known.auth) or known.auth
    auth = RayAuth.REQUIRED if auth is RayAuth.TOKEN else auth
    minimum = _release(section, known.minimum)
    if auth is RayAuth.REQUIRED and minimum < FIRST_WITH_TOKEN:
        section.note(
            "minimum",
            f"Ray {minimum.major}.{minimum.minor} has no token authentication, which `required` asks for.",
            f'write "{FIRST_WITH_TOKEN.major}.{FIRST_WITH_TOKEN.minor}" or newer, or `auth: preferred`.',
        )
    section.close()
    return Ray(auth=auth, minimum=minimum)


def _release(section: Section, known: Version) -> Version:
    text = section.text("minimum")
    try:
        found = known if text is None else Version.of(text)
    except ValueError:
        section.note("minimum", f"{text!r} is no release of Ray.", 'write one in quotes, such as "2.54".')
        return known
    if found.patch:
        message = f"{text!r} has a patch, and the policies compare the minor release alone."
        section.note(
            "minimum", message, f'write "{found.major}.{found.minor}" or "{found.major}.{found.minor + 1}".'
        )
    return found


def _program(section: Section, default: ProgramOptions) -> ProgramOptions:
    is_written = section.get("install") is not None
    options = ProgramOptions(install=section.flag("install", True)) if is_written else default
    section.close()
    return options


def _with_cloud(cluster: Cluster | None, gpu_operator: ProgramOptions) -> Cluster | None:
    """Where a stack installs the GPU Operator and names no cloud, the operator brings all of its parts."""
    if isinstance(cluster, ExistingCluster) and cluster.cloud is None and gpu_operator.install:
        return replace(cluster, cloud=NodeCloud.OTHER)
    return cluster


def _pods_ready(section: Section) -> PodsReady:
    known = PodsReady()
    retries = section.integer("retries", known.retries, **bounds.RETRIES)
    ready = PodsReady(
        timeout=section.duration("timeout", known.timeout),
        recovery=section.duration("recovery", known.recovery),
        retries=known.retries if retries is None else retries,
    )
    section.close()
    return ready
