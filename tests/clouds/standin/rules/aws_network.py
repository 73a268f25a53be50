"""What EC2 says of networks beyond its service model."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone, among
from tests.clouds.standin.tables.ec2 import NAT_TYPE, VPC_TYPE
from tests.clouds.standin.tables.eks import SUBNET_TYPE
from tests.clouds.standin.values import Inputs, get

Find = Callable[[str, Any], Inputs | None]


def _network(text: Any) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _sized(inputs: Inputs) -> Iterator[Refusal]:
    block = get(inputs, "cidrBlock")
    network = _network(block)
    if isinstance(block, str) and (network is None or not 16 <= network.prefixlen <= 28):
        yield Refusal("cidrBlock", f"{block!r} is no IPv4 range between /16 and /28")


@alone(VPC_TYPE)
def vpcs_have_a_size(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html: /16 to /28."""
    yield from _sized(inputs)


@alone(VPC_TYPE)
def eks_needs_names_in_its_vpc(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html: DNS hostnames and DNS resolution,
    or nodes cannot register. Hostnames are off where nothing is said.
    """
    if get(inputs, "enableDnsHostnames") is not True:
        yield Refusal("enableDnsHostnames", "nodes of EKS register only with it (the default is off)")
    if get(inputs, "enableDnsSupport") is False:
        yield Refusal("enableDnsSupport", "nodes of EKS register only with it")


@alone(SUBNET_TYPE)
def subnets_have_a_size(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html: /16 to /28."""
    yield from _sized(inputs)


@among(SUBNET_TYPE)
def subnets_lie_in_their_vpc(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """CreateSubnet: InvalidSubnet.Range."""
    vpc = _network((find(VPC_TYPE, inputs.get("vpcId")) or {}).get("cidrBlock"))
    mine = _network(inputs.get("cidrBlock"))
    if vpc is not None and mine is not None and not mine.subnet_of(vpc):
        yield Refusal("cidrBlock", f"{mine} lies outside the VPC's {vpc}")


@alone(NAT_TYPE)
def public_nats_have_an_address(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNatGateway.html: AllocationId is
    required for a public NAT gateway, which is the default.
    """
    if get(inputs, "connectivityType") != "private" and inputs.get("allocationId") is None:
        yield Refusal("allocationId", "a public NAT gateway needs an address")
