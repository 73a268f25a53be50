"""GKE: private, and hardened as in Google's own guide.

Source of the flags: https://cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster
"""

from collections.abc import Iterator
from typing import Final

from pulumi_policy import Severity

from muster.policies.registered import Resource, is_or_may_be
from muster.policies.rule import Case, Finding, Rule, Threshold

_CLUSTER: Final = "gcp:container/cluster:Cluster"
_POOL: Final = "gcp:container/nodePool:NodePool"
_DOCS: Final = "https://cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster"


def private(case: Case) -> Iterator[Finding]:
    """Nodes without public addresses, and an endpoint that is private or open to named networks."""
    for cluster in case.registered.of(_CLUSTER):
        if not is_or_may_be(cluster.at("privateClusterConfig", "enablePrivateNodes"), True):
            yield Finding(f"cluster {cluster.name}: nodes have public addresses.", cluster.urn)
        closed = is_or_may_be(cluster.at("privateClusterConfig", "enablePrivateEndpoint"), True)
        if not closed:
            yield from _open_endpoint(case, cluster)


def _open_endpoint(case: Case, cluster: Resource) -> Iterator[Finding]:
    blocks = cluster.at("masterAuthorizedNetworksConfig", "cidrBlocks")
    if blocks is None:
        yield Finding(f"cluster {cluster.name}: its endpoint answers the whole internet.", cluster.urn)
    for block in blocks if isinstance(blocks, list) else ():
        cidr = block.get("cidrBlock")
        if isinstance(cidr, str) and int(cidr.rsplit("/", 1)[-1]) < case.settings["smallestPrefix"]:
            yield Finding(f"cluster {cluster.name}: {cidr} may reach its endpoint.", cluster.urn)


def hardened(case: Case) -> Iterator[Finding]:
    """The settings that a cluster cannot get later without being replaced, and those of its nodes."""
    for cluster in case.registered.of(_CLUSTER):
        for message in _cluster(cluster):
            yield Finding(f"cluster {cluster.name}: {message}.", cluster.urn)
        if cluster.at("releaseChannel", "channel") in (None, "UNSPECIFIED"):
            message = "no release channel: it gets no patches by itself"
            yield Finding(f"cluster {cluster.name}: {message}.", cluster.urn)
    for pool in case.registered.of(_POOL):
        for message in _pool(pool):
            yield Finding(f"node pool {pool.name}: {message}.", pool.urn)


def _cluster(cluster: Resource) -> Iterator[str]:
    if cluster.at("workloadIdentityConfig", "workloadPool") is None:
        yield "no Workload Identity: pods use the node's account"
    if is_or_may_be(cluster.at("enableShieldedNodes"), False):
        yield "no shielded nodes"
    if not is_or_may_be(cluster.at("datapathProvider"), "ADVANCED_DATAPATH"):
        yield "no Dataplane V2: NetworkPolicies are not enforced"
    if is_or_may_be(cluster.at("enableLegacyAbac"), True):
        yield "legacy ABAC is on"


def _pool(pool: Resource) -> Iterator[str]:
    if not is_or_may_be(pool.at("nodeConfig", "workloadMetadataConfig", "mode"), "GKE_METADATA"):
        yield "pods can read the node's metadata"
    if pool.at("nodeConfig", "serviceAccount") is None:
        yield "the project's default service account"
    if not is_or_may_be(pool.at("nodeConfig", "shieldedInstanceConfig", "enableIntegrityMonitoring"), True):
        yield "no integrity monitoring"


RULES: Final = (
    Rule(
        name="gke-private",
        description="GKE clusters have private nodes and an endpoint that is open only to named networks.",
        why="A node or an endpoint with a public address can be reached by any client on the internet.",
        judge=private,
        severity=Severity.CRITICAL,
        remediation="leave muster:cluster private, and list authorizedNetworks.",
        url=_DOCS,
        thresholds={"smallestPrefix": Threshold(8, {"type": "integer", "minimum": 1, "maximum": 32})},
    ),
    Rule(
        name="gke-hardening",
        description="GKE clusters and node pools have the hardening flags of Google's guide.",
        why="Most of them cannot be set later without replacing the cluster.",
        judge=hardened,
        severity=Severity.HIGH,
        remediation="use the cluster that muster:cluster describes; it sets them.",
        url=_DOCS,
    ),
)
