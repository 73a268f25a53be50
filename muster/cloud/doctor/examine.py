"""Which looks a stack is worth, in the order in which they would fail."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from muster.artifacts.oci.web import Web
from muster.cloud import amazon as aws
from muster.cloud.doctor import amazon, google, sources, state
from muster.cloud.doctor.findings import Check, Finding, look
from muster.cloud.google import Google
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Stack


def examine(stack: Stack, *, name: str, file: Path) -> Iterator[Finding]:
    """Every finding about a stack."""
    return look(checks(stack, name=name, file=file))


def checks(stack: Stack, *, name: str, file: Path) -> list[tuple[str, Check]]:
    """What is looked at, by name."""
    where = state.Where(stack=name, file=file, backend=state.logged_in())
    web = Web(timeout=10, tries=2)
    return [
        *_cloud(stack),
        ("backend", partial(state.backend, where, stack.cluster)),
        ("lock", partial(state.lock, where)),
        ("secrets", partial(state.secrets, where, stack.cluster)),
        ("image", partial(sources.image, stack, name=name, web=web)),
        ("digests", partial(sources.tags, stack, name=name)),
        ("charts", partial(sources.charts, stack, name=name, web=web)),
    ]


def _cloud(stack: Stack) -> list[tuple[str, Check]]:
    cluster, pools = stack.cluster, stack.pools
    if isinstance(cluster, GkeCluster):
        here = Google()
        return [
            ("credentials", lambda: google.credentials(cluster, here)),
            ("APIs", lambda: google.apis(cluster, here)),
            ("GPU quota", lambda: google.gpu_quota(cluster, pools, here)),
        ]
    if isinstance(cluster, EksCluster):
        region = cluster.region
        return [
            ("credentials", lambda: amazon.credentials(cluster, aws.client("sts", region))),
            ("GPU quota", lambda: amazon.gpu_quota(cluster, pools, aws.client("service-quotas", region))),
        ]
    return []
