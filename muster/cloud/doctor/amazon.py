"""AWS: credentials, the region's vCPU quotas for GPU instances, and the zones that sell each machine.

Responsible for which quota a pool uses. Capacity blocks use none.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from muster.cloud.amazon import AmazonError, answered
from muster.cloud.doctor.findings import Finding, State, failed, passed, zones_finding
from muster.model.clusters import EksCluster
from muster.model.pools import Capacity, Pool

# EC2's quotas count vCPUs, by instance family and purchase option:
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
_G: Final = ("L-DB2E81BA", "L-3819A6DF")
_QUOTAS: Final = {
    "g": _G,
    "gr": _G,
    "p": ("L-417A185B", "L-7212CCBC"),
    "p5": ("L-417A185B", "L-C4BD4855"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
}
"""Family -> the quota on demand, and that of Spot."""
_FAMILY: Final = re.compile(r"(?P<letter>[a-z]+?)(?P<number>\d+)")
LOGIN: Final = "run `aws sso login`, or give the job a role"


def check_credentials(cluster: EksCluster, sts: Any) -> Iterator[Finding]:
    """The identity that AWS sees."""
    try:
        who = answered(sts.get_caller_identity)
    except AmazonError as error:
        yield failed("credentials", str(error), LOGIN)
    else:
        yield passed("credentials", f"{who['Arn']} in account {who['Account']}, region {cluster.region}")


def check_gpu_quota(cluster: EksCluster, pools: tuple[Pool, ...], quotas: Any) -> Iterator[Finding]:
    """Compare each quota with what the pools can request. A new account has a quota of 0."""
    for code, wanted in wanted_vcpus(pools).items():
        yield _compare_quota(code, wanted, quotas, cluster.region)


def check_zones(cluster: EksCluster, pools: tuple[Pool, ...], ec2: Any) -> Iterator[Finding]:
    """Whether every zone of a pool sells its machine."""
    names = sorted({pool.machine.name for pool in pools})
    offers = answered(
        lambda: ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": names}]
        )
    )["InstanceTypeOfferings"]
    for pool in pools:
        sold = {each["Location"] for each in offers if each["InstanceType"] == pool.machine.name}
        yield zones_finding(pool, zones=pool.zones or cluster.zones, of_region=(), sold=sold)


def wanted_vcpus(pools: tuple[Pool, ...]) -> dict[str, int]:
    """Quota code -> vCPUs that all of its pools can use at the same time."""
    found: dict[str, int] = {}
    for pool in pools:
        code = _code(pool)
        if code is not None:
            found[code] = found.get(code, 0) + pool.max_nodes * pool.machine.cpu // 1000
    return dict(sorted(found.items()))


def _code(pool: Pool) -> str | None:
    family = _FAMILY.match(pool.machine.name)
    if not pool.is_gpu or family is None or pool.capacity is Capacity.CAPACITY_BLOCK:
        return None
    quotas = _QUOTAS.get(family["letter"] + family["number"]) or _QUOTAS.get(family["letter"])
    return quotas[pool.capacity is Capacity.SPOT] if quotas else None


def _compare_quota(code: str, wanted: int, quotas: Any, region: str) -> Finding:
    fix = (
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} "
        f"--desired-value {wanted} --region {region}"
    )
    try:
        quota = answered(lambda: quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code))["Quota"]
    except AmazonError as error:
        return Finding(
            "GPU quota", State.UNKNOWN, f"{code}: {error}", "get the permission servicequotas:GetServiceQuota"
        )
    name, limit = quota.get("QuotaName", code), int(quota["Value"])
    if limit < wanted:
        message = f"{name} ({code}) is {limit} vCPUs in {region}; the pools can request {wanted}"
        return failed("GPU quota", message, fix)
    return passed("GPU quota", f"{name} is {limit} vCPUs in {region}, enough for {wanted}")
