"""Network policies of a team's pods: only the traffic that Ray, jobs and buckets need.

Responsible for one NetworkPolicy for incoming and one for outgoing traffic, in addition to Ray's own. They
have an effect where the cluster's network enforces NetworkPolicies (GKE Dataplane V2, the VPC CNI's network
policy agent on EKS, the local cluster), and none elsewhere.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.model.providers import Provider
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.tenancy import Egress
from muster.render import ray
from muster.render.manifest import Manifest, manifest

DNS_PORT: Final = 53

# Addresses that are the cluster's, the VPC's or the node's: not the internet. RFC 1918, 6598 and 3927.
_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
_PRIVATE_V6: Final = ("fc00::/7", "fe80::/10")

# Where a pod gets the credentials of its cloud identity, on clusters that Muster makes. On others the same
# address may answer with those of the node, as without Workload Identity on GKE, so it is opened by
# `tenancy.reach` alone.
#   GKE: cloud.google.com, "Workload Identity Federation for GKE", ports 80 and 988 of the metadata server
#   EKS: docs.aws.amazon.com, "Pod Identity agent", 169.254.170.23 and fd00:ec2::23, port 80
_IDENTITY_SERVERS: Final[Mapping[Provider, tuple[tuple[str, int], ...]]] = {
    Provider.GKE: (("169.254.169.254/32", 80), ("169.254.169.252/32", 988)),
    Provider.EKS: (("169.254.170.23/32", 80), ("fd00:ec2::23/128", 80)),
    Provider.EXISTING: (),
}

Rule = dict[str, Any]


def networks(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    return [
        _policy(team, labels, "incoming", {"policyTypes": ["Ingress"], "ingress": _incoming()}),
        ray.network_policy(team.namespace),
        _policy(team, labels, "outgoing", {"policyTypes": ["Egress"], "egress": _outgoing(stack)}),
    ]


def _policy(team: Team, labels: Mapping[str, str], name: str, spec: Rule) -> Manifest:
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        namespace=team.namespace,
        labels=labels,
        spec={"podSelector": {}, **spec},
    )


def _incoming() -> list[Rule]:
    """The team's own pods. Who else reaches Ray is render/ray's; a person comes by `kubectl port-forward`,
    through the kubelet, past all of this.
    """
    return [{"from": [{"podSelector": {}}]}]


def _outgoing(stack: Stack) -> list[Rule]:
    rules: list[Rule] = [
        {"to": [{"podSelector": {}}]},
        # To any address: node-local DNS caches answer on the node's own.
        {"ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")]},
        *(
            {"to": [_block(address)], "ports": [{"protocol": "TCP", "port": port}]}
            for address, port in _IDENTITY_SERVERS[stack.cluster.provider]
        ),
    ]
    if stack.tenancy.reach:
        rules.append({"to": [_block(address) for address in stack.tenancy.reach]})
    if stack.tenancy.egress is Egress.INTERNET:
        rules.append({"to": [_block("0.0.0.0/0", _PRIVATE), _block("::/0", _PRIVATE_V6)]})
    if stack.tenancy.egress is Egress.ALL:
        rules.append({})
    return rules


def _block(address: str, without: tuple[str, ...] = ()) -> Rule:
    return {"ipBlock": {"cidr": address, **({"except": list(without)} if without else {})}}
