"""The VPC of an EKS cluster: a private subnet a zone for nodes and pods, a small public one for the way out
(NAT), endpoints for S3 and the registry. Or an existing VPC.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.errors import MusterError
from muster.model.clusters import EksCluster, NatGateways

# No region has more.
_MOST_ZONES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`subnets`: zone -> private subnet. `way_out`: what nodes need before they can pull an image."""

    subnets: Mapping[str, pulumi.Input[str]]
    way_out: list[pulumi.Resource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpcArgs:
    """A VPC that Muster uses and never changes, from any resource of your program.

    `vpc`: its id. Another VPC replaces the cluster.
    `private_subnets`: zone -> subnet id, one for each zone of the cluster. Every pod takes an address there.

    Nodes have no public address: the subnets need their own way out (a NAT gateway or endpoints), or nodes
    cannot pull images and never join.
    """

    vpc: pulumi.Input[str]
    private_subnets: Mapping[str, pulumi.Input[str]]


def network(
    cluster: EksCluster, *, prefix: str, given: ExistingVpcArgs | None, opts: pulumi.ResourceOptions
) -> Network:
    there = given or cluster.network.existing
    if given is not None and given.private_subnets.keys() != set(cluster.zones):
        raise MusterError(
            f"ExistingVpcArgs.private_subnets has the zones {sorted(given.private_subnets)}; the cluster has "
            f"{sorted(cluster.zones)}.",
            fix="give one private subnet for each zone of the cluster.",
        )
    if there is not None:
        return Network(subnets=dict(there.private_subnets), way_out=[])
    return _Vpc(cluster, prefix, opts).network


def subnet_cidrs(cidr: str, zones: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """The private and public range of each zone: most of the VPC is divided among the private ones, because
    every pod takes an address there; the public ones hold one NAT gateway each. A zone that is added at the
    end moves no other public one, and a private one only where the VPC has to be divided anew.
    """
    whole = ipaddress.IPv4Network(cidr)
    slots = list(whole.subnets(new_prefix=whole.prefixlen + _bits(len(zones) + 1)))
    small = slots[-1].subnets(new_prefix=min(28, slots[-1].prefixlen + _bits(_MOST_ZONES)))
    private = {zone: str(slot) for zone, slot in zip(zones, slots, strict=False)}
    return private, {zone: str(slot) for zone, slot in zip(zones, small, strict=False)}


def _bits(number: int) -> int:
    return (number - 1).bit_length()


class _Vpc:
    """Makes the VPC; `network` is the result."""

    def __init__(self, cluster: EksCluster, prefix: str, opts: pulumi.ResourceOptions) -> None:
        self._cluster, self._prefix, self._opts = cluster, prefix, opts
        self._vpc = aws.ec2.Vpc(
            prefix,
            cidr_block=cluster.network.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._tags(prefix),
            opts=opts,
        )
        private, public = subnet_cidrs(cluster.network.cidr, cluster.zones)
        gateways = self._gateways(public)
        subnets: dict[str, pulumi.Input[str]] = {}
        tables: list[aws.ec2.RouteTable] = []
        routes: list[pulumi.Resource] = []
        for zone, cidr in private.items():
            name = f"{prefix}-private-{zone}"
            subnet = self._subnet(name, zone, cidr, role="internal-elb")
            table = self._table(name)
            gateway = gateways.get(zone) or next(iter(gateways.values()))
            routes.append(self._route(name, table, nat_gateway_id=gateway.id))
            self._associate(name, table, subnet)
            subnets[zone] = subnet.id
            tables.append(table)
        endpoint = aws.ec2.VpcEndpoint(
            f"{prefix}-s3",
            vpc_id=self._vpc.id,
            # Layers of images in ECR come from S3: this way they cost nothing and pass no NAT gateway.
            service_name=f"com.amazonaws.{cluster.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags=self._tags(f"{prefix}-s3"),
            opts=opts,
        )
        self.network = Network(subnets=subnets, way_out=[*routes, endpoint])

    def _gateways(self, public: Mapping[str, str]) -> dict[str, aws.ec2.NatGateway]:
        """One NAT gateway a zone, or one for all, each in a public subnet with an address of its own."""
        cluster, prefix = self._cluster, self._prefix
        internet = aws.ec2.InternetGateway(
            prefix, vpc_id=self._vpc.id, tags=self._tags(prefix), opts=self._opts
        )
        table = self._table(f"{prefix}-public")
        out = self._route(f"{prefix}-public", table, gateway_id=internet.id)
        found: dict[str, aws.ec2.NatGateway] = {}
        for zone, cidr in public.items():
            name = f"{prefix}-public-{zone}"
            subnet = self._subnet(name, zone, cidr, role="elb")
            self._associate(name, table, subnet)
            if found and cluster.network.nat_gateways is NatGateways.ONE:
                continue
            address = aws.ec2.Eip(name, domain="vpc", tags=self._tags(name), opts=self._opts)
            found[zone] = aws.ec2.NatGateway(
                name,
                subnet_id=subnet.id,
                allocation_id=address.id,
                tags=self._tags(name),
                opts=pulumi.ResourceOptions.merge(self._opts, pulumi.ResourceOptions(depends_on=[out])),
            )
        return found

    def _subnet(self, name: str, zone: str, cidr: str, *, role: str) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            name,
            vpc_id=self._vpc.id,
            cidr_block=cidr,
            availability_zone=zone,
            map_public_ip_on_launch=False,
            tags={**self._tags(name), f"kubernetes.io/role/{role}": "1"},
            opts=self._opts,
        )

    def _table(self, name: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(name, vpc_id=self._vpc.id, tags=self._tags(name), opts=self._opts)

    def _route(
        self,
        name: str,
        table: aws.ec2.RouteTable,
        *,
        gateway_id: pulumi.Input[str] | None = None,
        nat_gateway_id: pulumi.Input[str] | None = None,
    ) -> aws.ec2.Route:
        return aws.ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway_id,
            nat_gateway_id=nat_gateway_id,
            opts=self._opts,
        )

    def _associate(self, name: str, table: aws.ec2.RouteTable, subnet: aws.ec2.Subnet) -> None:
        aws.ec2.RouteTableAssociation(name, route_table_id=table.id, subnet_id=subnet.id, opts=self._opts)

    def _tags(self, name: str) -> dict[str, str]:
        return {**self._cluster.tags, "Name": name}
