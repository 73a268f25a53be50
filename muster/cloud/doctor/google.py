"""Google Cloud: who we are, which APIs are on, how many GPUs the region grants.

Decides which quota a pool takes from. Leaves raising it to a person: Google grants it, often after days.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.cloud.google import Google, GoogleError, answered
from muster.model.clusters import GkeCluster
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
# Compute Engine's regional quota of each GPU. Newer ones are granted by family instead, where these names do
# not exist: https://cloud.google.com/compute/resource-usage#gpu_quota
QUOTAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
        "nvidia-l4": "NVIDIA_L4_GPUS",
        "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
        "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
        "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    }
)
# Spot and flex-start nodes take from the quota of preemptible ones.
_PREEMPTIBLE: Final = (Capacity.SPOT, Capacity.QUEUED)
_LOGIN: Final = "run `gcloud auth application-default login`, or give the job a service account"
_SHOW: Final = "https://console.cloud.google.com/iam-admin/quotas"


def check_credentials(cluster: GkeCluster, google: Google) -> Iterator[Finding]:
    """Whether we may look at the project at all."""
    compute = google.service("compute", "v1")
    try:
        answered(lambda: compute.projects().get(project=cluster.project))
    except GoogleError as error:
        fix = _LOGIN if error.status in (0, 401) else f"ask for roles/compute.viewer in {cluster.project}"
        yield failed("credentials", f"project {cluster.project}: {error}", fix)
    else:
        yield passed("credentials", f"project {cluster.project} answers")


def check_apis(cluster: GkeCluster, google: Google) -> Iterator[Finding]:
    """Each API that is off."""
    names = [f"projects/{cluster.project}/services/{name}" for name in APIS]
    services = google.service("serviceusage", "v1").services()
    parent = f"projects/{cluster.project}"
    found = answered(lambda: services.batchGet(parent=parent, names=names)).get("services", [])
    on = {each["name"].rpartition("/")[2] for each in found if each.get("state") == "ENABLED"}
    off = [name for name in APIS if name not in on]
    if off:
        fix = f"gcloud services enable {' '.join(off)} --project {cluster.project}"
        yield failed("APIs", f"off: {', '.join(off)}", fix)
    else:
        yield passed("APIs", f"all {len(APIS)} are on")


def check_gpu_quota(cluster: GkeCluster, pools: tuple[Pool, ...], google: Google) -> Iterator[Finding]:
    """Each pool that could not get all of its nodes. Zero is what a new project has."""
    regions = google.service("compute", "v1").regions()
    region = answered(lambda: regions.get(project=cluster.project, region=cluster.region))
    known = {quota["metric"]: quota for quota in region.get("quotas", [])}
    for metric, wanted in wanted_gpus(pools).items():
        yield _compare_quota(metric, wanted, known.get(metric), cluster)
    for pool in pools:
        if pool.accelerator is not None and pool.accelerator.name not in QUOTAS:
            message = f"{pool.name}: {pool.accelerator.name} is granted by family, which this cannot see"
            yield Finding("GPU quota", State.UNKNOWN, message, f"look at {_SHOW}")


def wanted_gpus(pools: tuple[Pool, ...]) -> dict[str, int]:
    """Quota -> GPUs that all pools of it can have at once. Reserved ones are counted too: Google does."""
    found: dict[str, int] = {}
    for pool in pools:
        metric = QUOTAS.get(pool.accelerator.name) if pool.accelerator else None
        if metric is not None:
            name = f"PREEMPTIBLE_{metric}" if pool.capacity in _PREEMPTIBLE else metric
            found[name] = found.get(name, 0) + pool.max_nodes * pool.gpus_per_node
    return dict(sorted(found.items()))


def _compare_quota(metric: str, wanted: int, quota: Any, cluster: GkeCluster) -> Finding:
    fix = f"ask for {wanted} of {metric} in {cluster.region}: {_SHOW}?project={cluster.project}"
    if quota is None:
        return Finding("GPU quota", State.UNKNOWN, f"{metric} is not told in {cluster.region}", fix)
    limit, used = int(quota.get("limit", 0)), int(quota.get("usage", 0))
    if limit < wanted:
        message = f"{metric} is {limit} in {cluster.region} ({used} used); the pools can ask for {wanted}"
        return failed("GPU quota", message, fix)
    return passed("GPU quota", f"{metric} is {limit} in {cluster.region}, enough for {wanted}")
