"""Google Cloud: credentials, enabled APIs, the region's GPU quotas, and the zones that sell each machine.

Responsible for which quota a pool uses. Raising a quota is up to the user: Google grants it, often after
days.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.cloud.doctor.findings import Finding, State, failed, passed, zones_finding
from muster.cloud.google import Google, GoogleError, answered
from muster.model.clusters import GkeCluster
from muster.model.node_labels import pool_zones
from muster.model.pools import Capacity, Pool

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
        answered(lambda: compute.projects().get(project=cluster.project))
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
    found = answered(lambda: services.batchGet(parent=parent, names=names)).get("services", [])
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
    region = answered(lambda: regions.get(project=cluster.project, region=cluster.region))
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
    region = answered(lambda: compute.regions().get(project=cluster.project, region=cluster.region))
    of_region = {each.rpartition("/")[2] for each in region.get("zones", [])}
    for pool in (each for each in pools if each.is_gpu):
        sold = _sold(cluster, pool, of_region, compute)
        yield zones_finding(pool, zones=pool_zones(pool, cluster), of_region=of_region, sold=sold)


def _sold(cluster: GkeCluster, pool: Pool, zones: set[str], compute: Any) -> set[str]:
    """The zones that have the pool's accelerator. A machine of the A and G series exists where its GPU does,
    an N1 also where its GPU does not.
    """
    attached = pool.accelerator is not None and pool.machine.name.startswith("n1-")
    key = "acceleratorTypes" if attached else "machineTypes"
    name = pool.accelerator.name if attached and pool.accelerator else pool.machine.name
    kind = getattr(compute, key)()
    found = answered(lambda: kind.aggregatedList(project=cluster.project, filter=f"name={name}"))
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
