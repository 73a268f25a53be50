"""Which checks a stack needs, in the order in which `up` would fail."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from muster.artifacts.oci.web import Web
from muster.cloud import amazon as aws
from muster.cloud.doctor import (
    admission,
    amazon,
    google,
    machines,
    network_policies,
    node_pools,
    programs,
    sources,
    state,
    support,
    visible_devices,
)
from muster.cloud.doctor.findings import Check, Finding, State, run_checks
from muster.cloud.google import Google
from muster.config.today import today
from muster.errors import MusterError
from muster.live.cluster.api import Api
from muster.live.web import WebError
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Stack

Reach = Callable[[], Api]
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
    where = state.PulumiState(stack=name, file=file, backend=state.read_backend_url())
    web = Web(timeout=10, tries=2)
    return [
        *_cloud_checks(stack),
        ("backend", partial(state.check_backend, where, stack.cluster)),
        ("lock", partial(state.check_lock, where)),
        ("secrets", partial(state.check_secrets, where, stack.cluster)),
        ("image", partial(sources.check_image, stack, name=name, web=web)),
        ("digests", partial(sources.check_digests, stack, name=name)),
        ("charts", partial(sources.check_charts, stack, name=name, web=web)),
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
    wanted: list[tuple[str, Callable[[Api], Iterable[Finding]]]] = [
        ("admission checks", admission.check_admission),
        ("empty nodes", partial(node_pools.check_node_pools, stack)),
        ("versions", partial(programs.check_versions, stack)),
        ("GPU isolation", partial(visible_devices.check_visible_devices, stack)),
    ]
    if probes:
        wanted.append((network_policies.CHECK, partial(network_policies.check_network_policies, stack)))
    try:
        api = _reached(cluster)
    except MusterError as error:
        skipped = ", ".join(name for name, _ in wanted)
        yield Finding("cluster", State.UNKNOWN, f"{error.message} Skipped: {skipped}.", error.fix or _REACH)
        return
    yield from run_checks((name, partial(check, api)) for name, check in wanted)


def _reached(cluster: Reach) -> Api:
    """A client that the cluster has answered. One that may not read the version may still read the rest."""
    api = cluster()
    try:
        api.get("/version")
    except WebError as error:
        if error.status in (None, 401):
            raise
    return api


def _cloud_checks(stack: Stack) -> list[tuple[str, Check]]:
    cluster, pools, day = stack.cluster, stack.pools, today()
    if isinstance(cluster, GkeCluster):
        here = Google()
        others: list[tuple[str, Check]] = [
            ("APIs", lambda: google.check_apis(cluster, here)),
            ("GPU quota", lambda: google.check_gpu_quota(cluster, pools, here)),
            ("zones", lambda: google.check_zones(cluster, pools, here)),
            ("machines", lambda: machines.check_google(cluster, pools, here)),
        ]
        return [
            ("support", lambda: support.check_support(stack, today=day)),
            ("cloud", lambda: _signed_in(google.check_credentials(cluster, here), google.LOGIN, others)),
        ]
    if isinstance(cluster, EksCluster):
        region = cluster.region
        others = [
            (
                "support",
                lambda: support.check_eks_version(stack, cluster, aws.client("eks", region), today=day),
            ),
            (
                "GPU quota",
                lambda: amazon.check_gpu_quota(cluster, pools, aws.client("service-quotas", region)),
            ),
            ("zones", lambda: amazon.check_zones(cluster, pools, aws.client("ec2", region))),
            ("machines", lambda: machines.check_ec2(pools, aws.client("ec2", region))),
        ]
        sts = partial(aws.client, "sts", region)
        return [("cloud", lambda: _signed_in(amazon.check_credentials(cluster, sts()), amazon.LOGIN, others))]
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
