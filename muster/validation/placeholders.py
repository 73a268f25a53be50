"""Values of the examples that were never replaced: no cluster can be made with them.

`muster validate` reports them. A preview and the policy pack also read stacks that are not filled in yet.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final

from muster.model.clusters import EksCluster, GkeCluster
from muster.model.stack import Stack
from muster.model.violations import Violation

# What `muster new`, the shipped stacks and the clouds' own pages have in their place.
_PROJECTS: Final = ("my-project", "my-gcp-project", "project-id", "your-project")
_ACCOUNT: Final = "123456789012"
_RESERVATIONS: Final = ("cr-0123456789abcdef0", "cr-0fedcba9876543210", "cr-1234567890abcdef0")
# Of RFC 5737: they are on no network.
_NETWORKS: Final = tuple(map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
_CLUSTER: Final = "muster:cluster"
_PROJECT_FIX: Final = "write the ID of your project: `gcloud config get project` prints it."
_ACCOUNT_FIX: Final = "write an ARN of your account: `aws sts get-caller-identity` prints yours."
_NETWORK_FIX: Final = "write the addresses from which you deploy, such as your office's."
_RESERVATION_FIX: Final = "write the id of yours: `aws ec2 describe-capacity-reservations` prints them."


def placeholder_rules(stack: Stack) -> list[Violation]:
    """Every value that is still the example's."""
    cluster = stack.cluster
    found = list(_reservations(stack))
    if isinstance(cluster, GkeCluster):
        found += _gke(cluster)
    elif isinstance(cluster, EksCluster):
        found += _eks(cluster)
    return found


def _gke(cluster: GkeCluster) -> Iterator[Violation]:
    if cluster.project.lower() in _PROJECTS:
        yield Violation(f"{_CLUSTER}.project", _example(cluster.project), _PROJECT_FIX)
    for name, block in cluster.authorized_networks.items():
        yield from _network(f"{_CLUSTER}.authorizedNetworks.{name}", block)


def _eks(cluster: EksCluster) -> Iterator[Violation]:
    for index, block in enumerate(cluster.public_cidrs):
        yield from _network(f"{_CLUSTER}.publicCidrs[{index}]", block)
    for name, access in cluster.access.items():
        if f":{_ACCOUNT}:" in access.principal:
            yield Violation(f"{_CLUSTER}.access.{name}", _example(access.principal), _ACCOUNT_FIX)


def _reservations(stack: Stack) -> Iterator[Violation]:
    for pool in stack.pools:
        if pool.reservation is not None and pool.reservation.name in _RESERVATIONS:
            path = f"muster:pools.{pool.name}.reservation"
            yield Violation(path, _example(pool.reservation.name), _RESERVATION_FIX)


def _network(path: str, block: str) -> Iterator[Violation]:
    try:
        network = ipaddress.ip_network(block, strict=False)
    except ValueError:
        return  # another rule reports it
    if any(isinstance(network, ipaddress.IPv4Network) and network.subnet_of(each) for each in _NETWORKS):
        yield Violation(
            path, f"{block} is a network for documentation: no address of it is in use.", _NETWORK_FIX
        )


def _example(value: str) -> str:
    return f"{value} is the value of an example."
