"""Which checks a stack needs, in the order in which `up` would fail."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from muster.artifacts import resolved
from muster.artifacts.oci.registry import (
    Registry,
    RegistryError,
    Repository,
    UnreachableError,
    Web,
    credentials_for,
)
from muster.artifacts.resolved import ArtifactError
from muster.cloud import clients
from muster.cloud.clients import AmazonError, Google, client, from_amazon, from_google
from muster.cloud.doctor import cluster_checks, machines, support
from muster.cloud.doctor.findings import Check, Finding, State, failed, passed, run_checks, zones_finding
from muster.config.stack import today
from muster.errors import MusterError
from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError
from muster.local.pulumi_locks import PROJECT, locks_of
from muster.model.clusters import Cluster, EksCluster, GkeCluster
from muster.model.known_issues import issues_of
from muster.model.pools import Capacity, Pool
from muster.model.programs import OCI, Chart
from muster.model.stack import ArtifactSource, GangMode, Stack

# AWS: credentials, the region's vCPU quotas for GPU instances, and the zones that sell each machine.
# Capacity blocks use none.

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
        who = from_amazon(sts.get_caller_identity)
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
    offers = from_amazon(
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
        quota = from_amazon(lambda: quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code))["Quota"]
    except AmazonError as error:
        return Finding(
            "GPU quota", State.UNKNOWN, f"{code}: {error}", "get the permission servicequotas:GetServiceQuota"
        )
    name, limit = quota.get("QuotaName", code), int(quota["Value"])
    if limit < wanted:
        message = f"{name} ({code}) is {limit} vCPUs in {region}; the pools can request {wanted}"
        return failed("GPU quota", message, fix)
    return passed("GPU quota", f"{name} is {limit} vCPUs in {region}, enough for {wanted}")


# Of a Markdown link the text is kept.
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")

# Whether the controller's image and the charts exist where the stack says.
# A registry is only asked whether it has a digest or a version. Nothing is downloaded.


def check_image(stack: Stack, *, name: str, web: Web) -> Iterator[Finding]:
    """The image of the gang-admission controller."""
    if stack.artifacts is ArtifactSource.LOCAL or stack.gang_admission.mode is not GangMode.MUSTER:
        return
    push = resolved.push_command(stack, name=name)
    reference = stack.images.gang_admission
    if reference is None:
        yield failed("image", "the stack has no digest of the controller's image", push)
        return
    place, _, digest = reference.partition("@")
    repository = Repository.of(place)
    try:
        there = Registry(repository, credentials_for(repository.host), web).has_manifest(digest)
    except (RegistryError, UnreachableError) as error:
        yield failed("image", error.message, "log in to the registry, or push again: " + push)
        return
    yield passed("image", reference) if there else failed("image", f"{reference} does not exist", push)


def check_charts(stack: Stack, *, name: str, web: Web) -> Iterator[Finding]:
    """Every chart that the stack installs."""
    fix = "set a mirror (`muster:charts.mirror`) or download the charts (`muster image charts --to charts`)"
    for chart in (resolved.published(stack, name=name).charts[each] for each in resolved.installed(stack)):
        try:
            problem = _find_problem(chart, web)
        except (RegistryError, UnreachableError, ArtifactError) as error:
            problem = error.message
        yield (
            failed("charts", f"{chart.name}: {problem}", fix)
            if problem
            else passed("charts", _format_chart(chart))
        )


def check_digests(stack: Stack, *, name: str) -> Iterator[Finding]:
    """Third-party images that are named by tag, and charts without a digest. Their content can change."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return
    images, charts = sorted(resolved.by_tag(stack)), sorted(resolved.without_digest(stack))
    fix = f"muster image pin {name}, and commit it"
    if images:
        listed = ", ".join(images)
        message = f"images named by a tag, which can be moved (policy images-by-digest): {listed}"
        yield Finding("digests", State.UNKNOWN, message, fix)
    if charts:
        message = f"charts without a digest, whose download cannot be verified: {', '.join(charts)}"
        yield Finding("digests", State.UNKNOWN, message, fix)
    if not images and not charts:
        yield passed("digests", "every image and chart of the stack has a digest")


def check_known_issues(stack: Stack) -> Iterator[Finding]:
    """The known issues that a setting of the stack brings, by id. docs/known-issues.md lists all."""
    for issue in issues_of(stack):
        effect, instead = (_LINK.sub(r"\1", text) for text in (issue.effect, issue.instead))
        yield Finding("known issue", State.NOTE, f"{issue.name}: {effect}", instead)


def _find_problem(chart: Chart, web: Web) -> str:
    """What is wrong with the chart; empty when it exists."""
    if chart.reference.startswith(OCI):
        repository = Repository.of(chart.reference)
        registry = Registry(repository, credentials_for(repository.host), web)
        return "" if registry.has_manifest(chart.version or "") else f"{repository} has no {chart.version}"
    if chart.repository is None:
        return "" if Path(chart.reference).is_file() else f"{chart.reference} does not exist"
    url = f"{chart.repository.rstrip('/')}/index.yaml"
    answer = web.call("GET", url)
    if answer.status != 200:
        return f"{url} answers {answer.status}"
    listed = f"{chart.reference}-{chart.version}.tgz".encode() in answer.body
    return "" if listed else f"{chart.repository} lists no {chart.reference} {chart.version}"


def _format_chart(chart: Chart) -> str:
    return " ".join(part for part in (chart.reference, chart.version, chart.repository) if part)


Reach = Callable[[], Client]
"""Connects to the stack's cluster."""
_REACH: Final = "see that `kubectl get --raw /version` answers with the same kubeconfig and context."


def examine(
    stack: Stack, *, name: str, file: Path, cluster: Reach | None = None, probes: bool = False
) -> Iterator[Finding]:
    """Check a stack and yield every finding. `cluster`: None where there is none yet. `probes`: also what
    takes pods of ours in the cluster.
    """
    found = checks(stack, name=name, file=file, cluster=cluster, probes=probes)
    return run_checks(found, extra=_extra(stack))


def checks(
    stack: Stack, *, name: str, file: Path, cluster: Reach | None = None, probes: bool = False
) -> list[tuple[str, Check]]:
    """The checks by name."""
    where = PulumiState(stack=name, file=file, backend=read_backend_url())
    web = Web(timeout=10, tries=2)
    return [
        *_cloud_checks(stack),
        ("backend", partial(check_backend, where, stack.cluster)),
        ("lock", partial(check_lock, where)),
        ("secrets", partial(check_secrets, where, stack.cluster)),
        ("image", partial(check_image, stack, name=name, web=web)),
        ("digests", partial(check_digests, stack, name=name)),
        ("charts", partial(check_charts, stack, name=name, web=web)),
        ("known issues", partial(check_known_issues, stack)),
        *([("cluster", partial(_check_cluster, stack, cluster, probes=probes))] if cluster else ()),
    ]


def _extra(stack: Stack) -> str:
    """The extra of the wheel with the SDK of the stack's cloud."""
    match stack.cluster:
        case GkeCluster():
            return "gke"
        case EksCluster():
            return "eks"
        case _:
            return "program"


def _check_cluster(stack: Stack, cluster: Reach, *, probes: bool) -> Iterator[Finding]:
    """What only the cluster knows. One that cannot be reached is reported once, with what it leaves out."""
    wanted: list[tuple[str, Callable[[Client], Iterable[Finding]]]] = [
        ("admission checks", cluster_checks.check_admission),
        ("empty nodes", partial(machines.check_node_pools, stack)),
        ("broken nodes", machines.check_broken_nodes),
        ("versions", partial(support.check_versions, stack)),
        ("GPU isolation", partial(cluster_checks.check_visible_devices, stack)),
    ]
    if probes:
        wanted.append((cluster_checks.CHECK, partial(cluster_checks.check_network_policies, stack)))
    try:
        api = _reached(cluster)
    except MusterError as error:
        skipped = ", ".join(name for name, _ in wanted)
        yield Finding("cluster", State.UNKNOWN, f"{error.message} Skipped: {skipped}.", error.fix or _REACH)
        return
    yield from run_checks((name, partial(check, api)) for name, check in wanted)


def _reached(cluster: Reach) -> Client:
    """A client that the cluster has answered. One that may not read the version may still read the rest."""
    api = cluster()
    try:
        api.get("/version")
    except ApiError as error:
        if error.status == 401:
            raise
    return api


def _cloud_checks(stack: Stack) -> list[tuple[str, Check]]:
    cluster, pools, day = stack.cluster, stack.pools, today()
    if isinstance(cluster, GkeCluster):
        here = Google()
        others: list[tuple[str, Check]] = [
            ("APIs", lambda: machines.check_apis(cluster, here)),
            ("GPU quota", lambda: machines.check_gpu_quota(cluster, pools, here)),
            ("zones", lambda: machines.check_zones(cluster, pools, here)),
            ("machines", lambda: machines.check_google(cluster, pools, here)),
        ]
        return [
            ("support", lambda: support.check_support(stack, today=day)),
            ("cloud", lambda: _signed_in(machines.check_credentials(cluster, here), machines.LOGIN, others)),
        ]
    if isinstance(cluster, EksCluster):
        region = cluster.region
        others = [
            (
                "support",
                lambda: support.check_eks_version(stack, cluster, clients.client("eks", region), today=day),
            ),
            (
                "GPU quota",
                lambda: check_gpu_quota(cluster, pools, clients.client("service-quotas", region)),
            ),
            ("zones", lambda: check_zones(cluster, pools, clients.client("ec2", region))),
            ("machines", lambda: machines.check_ec2(pools, clients.client("ec2", region))),
        ]
        sts = partial(clients.client, "sts", region)
        return [("cloud", lambda: _signed_in(check_credentials(cluster, sts()), LOGIN, others))]
    return []


def _signed_in(
    credentials: Iterable[Finding], login: str, others: list[tuple[str, Check]]
) -> Iterator[Finding]:
    """Checks that need an identity of the cloud. Where `login` is the fix, each of them would fail for the
    same reason: they are named as skipped.
    """
    found = list(credentials)
    if any(each.fix == login for each in found):
        skipped = ", ".join(name for name, _ in others)
        yield from (
            replace(each, message=f"{each.message.rstrip('.')}. Skipped: {skipped}.") for each in found
        )
        return
    yield from found
    yield from run_checks(others)


# Pulumi's state and secrets: the backend, its lock, the secrets provider.
#
# Responsible for what is suitable for a cluster in a cloud. Reads files and lists the locks; never removes a
# lock.


_KMS: Final = ("gcpkms://", "awskms://")


@dataclass(frozen=True, slots=True, kw_only=True)
class PulumiState:
    """`backend` is the URL that Pulumi is logged in to; empty when it is not logged in."""

    stack: str
    file: Path
    backend: str


def read_backend_url(environment: Mapping[str, str] | None = None) -> str:
    """The backend's URL: from the environment, or else from the file that `pulumi login` wrote."""
    found = os.environ if environment is None else environment
    if found.get("PULUMI_BACKEND_URL"):
        return found["PULUMI_BACKEND_URL"]
    home = found.get("PULUMI_HOME") or str(Path.home() / ".pulumi")
    try:
        current = json.loads((Path(home) / "credentials.json").read_text(encoding="utf-8")).get("current")
    except (OSError, ValueError):
        return ""
    return str(current or "")


def check_backend(where: PulumiState, cluster: Cluster) -> Iterator[Finding]:
    """Whether Pulumi is logged in, to a backend that outlives this machine."""
    make = (
        "run `pulumi login` with a backend of your own"
        if not cluster.is_ours
        else f"run `muster backend create {where.stack}` and the two commands that it prints"
    )
    if not where.backend and shutil.which("pulumi") is None:
        yield failed("backend", "the Pulumi CLI is not on PATH", "install it, and then " + make)
    elif not where.backend:
        yield failed("backend", "Pulumi is not logged in", make)
    elif where.backend.startswith("file://") and cluster.is_ours:
        yield failed(
            "backend", f"{where.backend}: the state of a cloud cluster would only exist on this machine", make
        )
    else:
        yield passed("backend", where.backend)


def check_lock(where: PulumiState, *, google: Google | None = None) -> Iterator[Finding]:
    """Whether an update holds the lock. Pulumi's own service manages its locks itself."""
    lister = _LISTERS.get(urlsplit(where.backend).scheme)
    if lister is None:
        return
    held = lister(where, google or Google())
    if held:
        message = f"{len(held)} lock on stack {where.stack}: {held[0]}"
        fix = f"wait for the update that holds it; if it crashed: pulumi cancel --stack {where.stack}"
        yield failed("lock", message, fix)
    else:
        yield passed("lock", "no update holds it")


def check_secrets(where: PulumiState, cluster: Cluster) -> Iterator[Finding]:
    """Which key encrypts the stack's secrets."""
    written = yaml.safe_load(where.file.read_text(encoding="utf-8")) or {}
    provider = str(written.get("secretsprovider") or "")
    make = (
        f"run `muster backend create {where.stack}`, then `pulumi stack change-secrets-provider` with its key"
    )
    if provider.startswith(_KMS):
        yield passed("secrets", provider)
    elif not cluster.is_ours:
        yield passed("secrets", "a passphrase or Pulumi's own service")
    elif written.get("encryptionsalt"):
        yield failed("secrets", "a passphrase, which everyone who deploys has to know", make)
    else:
        message = "the stack has no secrets provider (Pulumi's own service, or not created yet)"
        yield Finding("secrets", State.UNKNOWN, message, make)


def _in_file(where: PulumiState, _: Google) -> list[str]:
    held = locks_of(Path(urlsplit(where.backend).path), stack=where.stack)
    return [f"{lock}{', which has ended without removing it' if lock.is_left_over else ''}" for lock in held]


def _in_google(where: PulumiState, google: Google) -> list[str]:
    objects = google.service("storage", "v1").objects()
    bucket, prefix = urlsplit(where.backend).netloc, _prefix(where)
    return [
        each["name"]
        for each in from_google(lambda: objects.list(bucket=bucket, prefix=prefix)).get("items", [])
    ]


def _in_amazon(where: PulumiState, _: Google) -> list[str]:
    place = urlsplit(where.backend)
    region = dict(pair.partition("=")[::2] for pair in place.query.split("&")).get("region") or "us-east-1"
    s3 = client("s3", region)
    answer = from_amazon(lambda: s3.list_objects_v2(Bucket=place.netloc, Prefix=_prefix(where)))
    return [str(each["Key"]) for each in answer.get("Contents", [])]


def _prefix(where: PulumiState) -> str:
    return f".pulumi/locks/organization/{PROJECT}/{where.stack}/"


_LISTERS: Final[Mapping[str, Callable[[PulumiState, Google], list[str]]]] = {
    "file": _in_file,
    "gs": _in_google,
    "s3": _in_amazon,
}
