"""A stack's machines as their cloud describes them, compared with the table's figures or those of `node`; and
of Google Cloud the credentials, the enabled APIs, the region's GPU quotas, and the zones that sell each
machine.

Raising a quota is up to the user: Google grants it, often after days.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.cloud.clients import Google, GoogleError, from_amazon, from_google
from muster.cloud.doctor.findings import Finding, State, failed, passed, zones_finding
from muster.kubernetes.client import Client
from muster.live.fields import Json, items, mapping, strings, text, texts
from muster.model import names
from muster.model.clusters import GkeCluster
from muster.model.machines import AMD64, ARM64, Machine
from muster.model.node_labels import repairer
from muster.model.pools import Capacity, Pool
from muster.model.quantities import MIB
from muster.model.stack import Stack

# Whether Karpenter takes away the nodes that came for a gang which failed. Until then they are paid for.

_CHECK: Final = "empty nodes"
_PATH: Final = "/apis/karpenter.sh/v1/nodepools"
_FOR_EMPTY: Final = "Empty"


def check_node_pools(stack: Stack, api: Client) -> Iterator[Finding]:
    """One finding for each NodePool that makes nodes for gangs and keeps them when they are empty. Without
    Karpenter there are none.
    """
    pools = {pool.name for pool in stack.placeholder_pools}
    if not pools:
        return
    found: list[Json] = api.find_all(_PATH, mapping) or []
    # One with `replicas` makes nodes for no pod.
    ours = [each for each in found if pools & _pools_of(each) and "replicas" not in mapping(each, "spec")]
    kept = {text(each, "metadata", "name"): fix for each in ours if (fix := _fix(each))}
    for name, fix in kept.items():
        message = (
            f"NodePool {name} keeps empty nodes: those that come for a gang which then fails stay, and are "
            "paid for"
        )
        yield failed(_CHECK, message, fix)
    if ours and not kept:
        listed = ", ".join(sorted(text(each, "metadata", "name") for each in ours))
        yield passed(_CHECK, f"taken away by NodePools {listed}")


def check_broken_nodes(api: Client) -> Iterator[Finding]:
    """One finding for each node that the controller has set aside."""
    nodes: list[Json] = api.find_all("/api/v1/nodes", mapping) or []
    for node in nodes:
        values = {text(each, "key"): text(each, "value") for each in items(node, "spec", "taints")}
        if sign := values.get(names.BROKEN_TAINT_KEY):
            yield failed(
                "broken nodes",
                f"node {text(node, 'metadata', 'name')} is set aside: {sign}",
                f"{repairer(texts(node, 'metadata', 'labels'))}; a minute after its sign has gone it is open",
            )


def _pools_of(node_pool: Json) -> set[str]:
    """The pools of the stack that its nodes belong to: by their label, or by a requirement of that key."""
    template = mapping(node_pool, "spec", "template")
    label = text(template, "metadata", "labels", names.POOL_LABEL)
    required = {
        value
        for each in items(template, "spec", "requirements")
        if text(each, "key") == names.POOL_LABEL and text(each, "operator") == "In"
        for value in strings(each, "values")
    }
    return required | ({label} if label else set())


def _fix(node_pool: Json) -> str:
    """What to change so that empty nodes go; empty where they do."""
    name = text(node_pool, "metadata", "name")
    disruption = mapping(node_pool, "spec", "disruption")
    if text(disruption, "consolidateAfter") == "Never":
        patch = '{"spec":{"disruption":{"consolidationPolicy":"WhenEmpty","consolidateAfter":"1m"}}}'
        command = f"kubectl patch nodepool {name} --type merge -p '{patch}'"
        return f"write `consolidateAfter: 1m` where it is made, or at once: {command}"
    if any(map(_stops_empty, items(disruption, "budgets"))):
        return (
            "where it is made, let its budget of 0 nodes have only the reasons Drifted and Underutilized, or "
            f"at once: kubectl edit nodepool {name}"
        )
    return ""


def _stops_empty(budget: Mapping[str, object]) -> bool:
    """Whether it forbids at all times that empty nodes go. With a schedule they go in between."""
    reasons = budget.get("reasons")
    concerns = not reasons or (isinstance(reasons, list) and _FOR_EMPTY in reasons)
    return concerns and text(budget, "nodes") in ("0", "0%") and "schedule" not in budget


# The clouds name processors in two ways.
_PROCESSORS: Final = {"x86_64": AMD64, "X86_64": AMD64, "arm64": ARM64, "ARM64": ARM64}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """What the cloud says. `accelerators` and `architecture` are None where it does not say."""

    vcpus: int
    memory_mib: int
    accelerators: int | None
    architecture: str | None


def check_ec2(pools: Iterable[Pool], ec2: Any) -> Iterator[Finding]:
    """Compare with DescribeInstanceTypes. Raises AmazonError."""
    machines = _machines(pools)
    wanted = [{"Name": "instance-type", "Values": sorted(machines)}]
    found = from_amazon(lambda: ec2.describe_instance_types(Filters=wanted))["InstanceTypes"]
    yield from _compare(machines, {each["InstanceType"]: _of_ec2(each) for each in found})


def check_google(cluster: GkeCluster, pools: Iterable[Pool], google: Google) -> Iterator[Finding]:
    """Compare with Compute Engine's machine types. Raises GoogleError."""
    compute = google.service("compute", "v1")
    machines, figures = _machines(pools), {}
    for name in machines:
        asked = compute.machineTypes().aggregatedList(project=cluster.project, filter=f"name={name}")
        listed = _answer(asked)
        zones = listed.get("items", {}).values()
        entry = next((each for zone in zones for each in zone.get("machineTypes", [])), None)
        if entry is not None:
            figures[name] = _of_google(entry, machines[name])
    yield from _compare(machines, figures)


def _answer(request: Any) -> Any:
    return from_google(lambda: request)


def _machines(pools: Iterable[Pool]) -> dict[str, Machine]:
    return {pool.machine.name: pool.machine for pool in pools}


def _of_ec2(entry: Mapping[str, Any]) -> _Figures:
    devices = [
        *entry.get("GpuInfo", {}).get("Gpus", []),
        *entry.get("NeuronInfo", {}).get("NeuronDevices", []),
    ]
    processors = entry.get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    return _Figures(
        vcpus=entry["VCpuInfo"]["DefaultVCpus"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        accelerators=sum(each.get("Count", 0) for each in devices),
        architecture=next((_PROCESSORS[each] for each in processors if each in _PROCESSORS), None),
    )


def _of_google(entry: Mapping[str, Any], machine: Machine) -> _Figures:
    """Of a machine to which GPUs are attached it lists none, and TPUs not in every case."""
    listed = entry.get("accelerators", [])
    is_listed = listed or not machine.gpu_counts
    count = sum(each.get("guestAcceleratorCount", 0) for each in listed)
    return _Figures(
        vcpus=entry["guestCpus"],
        memory_mib=entry["memoryMb"],
        accelerators=count if is_listed else None,
        architecture=_PROCESSORS.get(entry.get("architecture", "")),
    )


def _compare(machines: Mapping[str, Machine], found: Mapping[str, _Figures]) -> Iterator[Finding]:
    for name, machine in sorted(machines.items()):
        figures = found.get(name)
        if figures is None:
            yield failed("machines", f"the cloud has no machine {name}", "choose another machine.")
            continue
        differing = ", ".join(_differences(machine, figures))
        if differing:
            fix = "write the cloud's in `node`." if machine.is_own else "report it: the table is wrong."
            yield failed("machines", f"{name}: {differing}", fix)
        else:
            yield passed("machines", f"{name} is as the cloud describes it")


def _differences(machine: Machine, figures: _Figures) -> Iterator[str]:
    """Figures are exact, except for the memory that a person rounds."""
    if machine.cpu != figures.vcpus * 1000:
        yield f"{machine.cpu / 1000:g} vCPUs here, {figures.vcpus} at the cloud"
    memory = machine.memory / MIB
    if abs(memory - figures.memory_mib) > 0.01 * figures.memory_mib:
        yield f"{memory:.0f} MiB of memory here, {figures.memory_mib} at the cloud"
    if figures.accelerators is not None and figures.accelerators not in (machine.gpu_counts or (0,)):
        yield f"{sum(machine.gpu_counts)} accelerators here, {figures.accelerators} at the cloud"
    if figures.architecture not in (None, machine.architecture):
        yield f"{machine.architecture} here, {figures.architecture} at the cloud"


# What the components call, and what GKE itself does for them.
APIS: Final = (
    "artifactregistry.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "storage.googleapis.com",
)
# Spot and flex-start nodes use the quota of preemptible GPUs.
_PREEMPTIBLE: Final = (Capacity.SPOT, Capacity.QUEUED, Capacity.FLEX_START)
LOGIN: Final = "run `gcloud auth application-default login`, or give the job a service account"
_SHOW: Final = "https://console.cloud.google.com/iam-admin/quotas"


def check_credentials(cluster: GkeCluster, google: Google) -> Iterator[Finding]:
    """Whether the project can be read."""
    try:
        compute = google.service("compute", "v1")
        from_google(lambda: compute.projects().get(project=cluster.project))
    except GoogleError as error:
        fix = LOGIN if error.status in (0, 401) else f"get the role roles/compute.viewer in {cluster.project}"
        yield failed("credentials", f"project {cluster.project}: {error}", fix)
    else:
        yield passed("credentials", f"project {cluster.project} can be read")


def check_apis(cluster: GkeCluster, google: Google) -> Iterator[Finding]:
    """Whether the required APIs are enabled."""
    names = [f"projects/{cluster.project}/services/{name}" for name in APIS]
    services = google.service("serviceusage", "v1").services()
    parent = f"projects/{cluster.project}"
    found = from_google(lambda: services.batchGet(parent=parent, names=names)).get("services", [])
    on = {each["name"].rpartition("/")[2] for each in found if each.get("state") == "ENABLED"}
    off = [name for name in APIS if name not in on]
    if off:
        fix = f"gcloud services enable {' '.join(off)} --project {cluster.project}"
        yield failed("APIs", f"not enabled: {', '.join(off)}", fix)
    else:
        yield passed("APIs", f"all {len(APIS)} are enabled")


def check_gpu_quota(cluster: GkeCluster, pools: tuple[Pool, ...], google: Google) -> Iterator[Finding]:
    """Compare each quota with what the pools can request. A new project has a quota of 0."""
    regions = google.service("compute", "v1").regions()
    region = from_google(lambda: regions.get(project=cluster.project, region=cluster.region))
    known = {quota["metric"]: quota for quota in region.get("quotas", [])}
    for metric, wanted in wanted_gpus(pools).items():
        yield _compare_quota(metric, wanted, known.get(metric), cluster)
    for pool in pools:
        if pool.accelerator is not None and not pool.accelerator.gke_quota:
            message = (
                f"{pool.name}: {pool.accelerator.name} is granted by "
                f"{'TPU' if pool.is_tpu else 'GPU'} family, whose quota cannot be read"
            )
            yield Finding("GPU quota", State.UNKNOWN, message, f"see {_SHOW}")


def check_zones(cluster: GkeCluster, pools: tuple[Pool, ...], google: Google) -> Iterator[Finding]:
    """Whether every zone of a GPU pool sells its machine. Where neither the stack nor our table names zones,
    GKE picks some of the region, also one without the accelerator, and fails.
    """
    compute = google.service("compute", "v1")
    region = from_google(lambda: compute.regions().get(project=cluster.project, region=cluster.region))
    of_region = {each.rpartition("/")[2] for each in region.get("zones", [])}
    for pool in (each for each in pools if each.is_gpu):
        sold = _sold(cluster, pool, of_region, compute)
        yield zones_finding(pool, zones=cluster.zones_of(pool), of_region=of_region, sold=sold)


def _sold(cluster: GkeCluster, pool: Pool, zones: set[str], compute: Any) -> set[str]:
    """The zones that have the pool's accelerator. A machine of the A and G series exists where its GPU does,
    an N1 also where its GPU does not.
    """
    attached = pool.accelerator is not None and pool.machine.name.startswith("n1-")
    key = "acceleratorTypes" if attached else "machineTypes"
    name = pool.accelerator.name if attached and pool.accelerator else pool.machine.name
    kind = getattr(compute, key)()
    found = from_google(lambda: kind.aggregatedList(project=cluster.project, filter=f"name={name}"))
    items = found.get("items", {})
    return {zone for zone in zones if items.get(f"zones/{zone}", {}).get(key)}


def wanted_gpus(pools: tuple[Pool, ...]) -> dict[str, int]:
    """Quota -> GPUs that all of its pools can use at the same time. Google counts reserved GPUs as well."""
    found: dict[str, int] = {}
    for pool in pools:
        metric = pool.accelerator.gke_quota if pool.accelerator else ""
        if metric:
            name = f"PREEMPTIBLE_{metric}" if pool.capacity in _PREEMPTIBLE else metric
            found[name] = found.get(name, 0) + pool.max_nodes * pool.gpus_per_node
    return dict(sorted(found.items()))


def _compare_quota(metric: str, wanted: int, quota: Any, cluster: GkeCluster) -> Finding:
    fix = f"request {wanted} of {metric} in {cluster.region}: {_SHOW}?project={cluster.project}"
    if quota is None:
        return Finding(
            "GPU quota", State.UNKNOWN, f"the quota {metric} is not listed in {cluster.region}", fix
        )
    limit, used = int(quota.get("limit", 0)), int(quota.get("usage", 0))
    if limit < wanted:
        message = f"{metric} is {limit} in {cluster.region} ({used} used); the pools can request {wanted}"
        return failed("GPU quota", message, fix)
    return passed("GPU quota", f"{metric} is {limit} in {cluster.region}, enough for {wanted}")
