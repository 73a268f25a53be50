"""Which checks a stack needs, in the order in which `up` would fail."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from muster.artifacts.oci.web import Web
from muster.cloud import amazon as aws
from muster.cloud.doctor import (
    admission,
    amazon,
    google,
    network_policies,
    node_pools,
    programs,
    sources,
    state,
    support,
)
from muster.cloud.doctor.findings import Check, Finding, run_checks
from muster.cloud.google import Google
from muster.config.today import today
from muster.live.cluster.api import Api
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Stack

Reach = Callable[[], Api]
"""Connects to the stack's cluster."""


def examine(
    stack: Stack, *, name: str, file: Path, cluster: Reach | None = None, probes: bool = False
) -> Iterator[Finding]:
    """Check a stack and yield every finding. `cluster`: None where there is none yet. `probes`: also what
    takes pods of ours in the cluster.
    """
    return run_checks(checks(stack, name=name, file=file, cluster=cluster, probes=probes))


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
        *(_cluster_checks(stack, cluster) if cluster else ()),
        *(_probes(stack, cluster) if cluster and probes else ()),
    ]


def _cluster_checks(stack: Stack, cluster: Reach) -> list[tuple[str, Check]]:
    return [
        ("admission checks", lambda: admission.check_admission(cluster())),
        ("empty nodes", lambda: node_pools.check_node_pools(stack, cluster())),
        ("versions", lambda: programs.check_versions(stack, cluster())),
    ]


def _probes(stack: Stack, cluster: Reach) -> list[tuple[str, Check]]:
    return [(network_policies.CHECK, lambda: network_policies.check_network_policies(stack, cluster()))]


def _cloud_checks(stack: Stack) -> list[tuple[str, Check]]:
    cluster, pools, day = stack.cluster, stack.pools, today()
    if isinstance(cluster, GkeCluster):
        here = Google()
        return [
            ("support", lambda: support.check_support(stack, today=day)),
            ("credentials", lambda: google.check_credentials(cluster, here)),
            ("APIs", lambda: google.check_apis(cluster, here)),
            ("GPU quota", lambda: google.check_gpu_quota(cluster, pools, here)),
            ("zones", lambda: google.check_zones(cluster, pools, here)),
        ]
    if isinstance(cluster, EksCluster):
        region = cluster.region
        return [
            ("credentials", lambda: amazon.check_credentials(cluster, aws.client("sts", region))),
            (
                "support",
                lambda: support.check_eks_version(stack, cluster, aws.client("eks", region), today=day),
            ),
            (
                "GPU quota",
                lambda: amazon.check_gpu_quota(cluster, pools, aws.client("service-quotas", region)),
            ),
            ("zones", lambda: amazon.check_zones(cluster, pools, aws.client("ec2", region))),
        ]
    return []
