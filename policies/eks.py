"""EKS: private, and hardened as in AWS's own guide.

Source of the flags: https://docs.aws.amazon.com/eks/latest/best-practices/security.html
"""

from collections.abc import Iterator
from typing import Final

from pulumi_policy import Severity

from muster.policies.registered import Resource, Unknown, is_or_may_be
from muster.policies.rule import Case, Finding, Rule, Threshold

_CLUSTER: Final = "aws:eks/cluster:Cluster"
_TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
_DOCS: Final = "https://docs.aws.amazon.com/eks/latest/best-practices/security.html"
_LOGS: Final = frozenset({"api", "audit", "authenticator"})


def private(case: Case) -> Iterator[Finding]:
    """An endpoint inside the VPC; a public one only for named networks."""
    for cluster in case.registered.of(_CLUSTER):
        if not is_or_may_be(cluster.at("vpcConfig", "endpointPrivateAccess"), True):
            yield Finding(f"cluster {cluster.name}: no endpoint inside its VPC.", cluster.urn)
        public = cluster.at("vpcConfig", "endpointPublicAccess")
        if public is False or isinstance(public, Unknown):
            continue
        for cidr in cluster.at("vpcConfig", "publicAccessCidrs") or ["0.0.0.0/0"]:
            if isinstance(cidr, str) and int(cidr.rsplit("/", 1)[-1]) < case.settings["smallestPrefix"]:
                yield Finding(f"cluster {cluster.name}: {cidr} may reach its endpoint.", cluster.urn)


def hardened(case: Case) -> Iterator[Finding]:
    """Encryption, logs and access of clusters, and the metadata service of nodes."""
    for cluster in case.registered.of(_CLUSTER):
        for message in _cluster(cluster):
            yield Finding(f"cluster {cluster.name}: {message}.", cluster.urn)
    for template in case.registered.of(_TEMPLATE):
        for message in _template(template):
            yield Finding(f"launch template {template.name}: {message}.", template.urn)


def _cluster(cluster: Resource) -> Iterator[str]:
    if cluster.at("encryptionConfig") is None:
        yield "Kubernetes Secrets are not encrypted with a key of yours"
    logs = cluster.at("enabledClusterLogTypes")
    if not isinstance(logs, Unknown) and not set(logs or ()) >= _LOGS:
        yield f"no control-plane logs of {', '.join(sorted(_LOGS - set(logs or ())))}"
    if not is_or_may_be(cluster.at("accessConfig", "authenticationMode"), "API"):
        yield "access by the aws-auth ConfigMap"


def _template(template: Resource) -> Iterator[str]:
    if not is_or_may_be(template.at("metadataOptions", "httpTokens"), "required"):
        yield "IMDSv1 answers"
    if not is_or_may_be(template.at("metadataOptions", "httpPutResponseHopLimit"), 1):
        yield "pods can reach the node's metadata (hop limit above 1)"


RULES: Final = (
    Rule(
        name="eks-private",
        description="EKS clusters can be reached only from their VPC and from named networks.",
        why="An endpoint with a public address can be reached by any client on the internet.",
        judge=private,
        severity=Severity.CRITICAL,
        remediation="leave muster:cluster private, and list publicCidrs if you must.",
        url="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
        thresholds={"smallestPrefix": Threshold(8, {"type": "integer", "minimum": 1, "maximum": 32})},
    ),
    Rule(
        name="eks-hardening",
        description="EKS clusters and nodes have encryption, logs, access entries and IMDSv2.",
        why=(
            "Without them Secrets have no key of yours, calls leave no log, and a pod can read the "
            "credentials of its node."
        ),
        judge=hardened,
        severity=Severity.HIGH,
        remediation="use the cluster that muster:cluster describes; it sets them.",
        url=_DOCS,
    ),
)
