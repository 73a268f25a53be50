"""An EKS cluster in a VPC of your own: its network is made here, and Muster uses it and never changes it."""

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import EksGpuCluster, EksGpuClusterArgs, ExistingVpcArgs
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.machines import MACHINES
from muster.model.pools import Pool

REGION = "eu-central-1"
ZONES = ("eu-central-1a", "eu-central-1b")

amazon = pulumi.ResourceOptions(provider=aws.Provider("aws", region=REGION))
vpc = aws.ec2.Vpc("own", cidr_block="10.20.0.0/16", enable_dns_hostnames=True, opts=amazon)
internet = aws.ec2.InternetGateway("own", vpc_id=vpc.id, opts=amazon)

public = aws.ec2.Subnet(
    "public", vpc_id=vpc.id, cidr_block="10.20.0.0/24", availability_zone=ZONES[0], opts=amazon
)
out = aws.ec2.RouteTable("public", vpc_id=vpc.id, opts=amazon)
aws.ec2.RouteTableAssociation("public", route_table_id=out.id, subnet_id=public.id, opts=amazon)
to_internet = aws.ec2.Route(
    "public",
    route_table_id=out.id,
    destination_cidr_block="0.0.0.0/0",
    gateway_id=internet.id,
    opts=amazon,
)
address = aws.ec2.Eip("nat", domain="vpc", opts=amazon)
nat = aws.ec2.NatGateway(
    "nat",
    subnet_id=public.id,
    allocation_id=address.id,
    opts=pulumi.ResourceOptions.merge(amazon, pulumi.ResourceOptions(depends_on=[to_internet])),
)

private = aws.ec2.RouteTable("private", vpc_id=vpc.id, opts=amazon)
way_out = aws.ec2.Route(
    "private",
    route_table_id=private.id,
    destination_cidr_block="0.0.0.0/0",
    nat_gateway_id=nat.id,
    opts=amazon,
)
subnets = {}
for number, zone in enumerate(ZONES, start=1):
    subnet = aws.ec2.Subnet(
        f"private-{zone}",
        vpc_id=vpc.id,
        cidr_block=f"10.20.{64 * number}.0/18",
        availability_zone=zone,
        opts=amazon,
    )
    aws.ec2.RouteTableAssociation(
        f"private-{zone}", route_table_id=private.id, subnet_id=subnet.id, opts=amazon
    )
    subnets[zone] = subnet.id

cluster = EksGpuCluster(
    "own",
    EksGpuClusterArgs(
        cluster=EksCluster(name="own", region=REGION, zones=ZONES, protect=False),
        pools=[
            Pool(
                name="l4",
                machine=MACHINES["g6.2xlarge"],
                gpus_per_node=1,
                capacity=Capacity.ON_DEMAND,
                max_nodes=4,
            )
        ],
        vpc=ExistingVpcArgs(vpc=vpc.id, private_subnets=subnets),
    ),
    # Nodes pull images through the NAT gateway from their first minute on.
    opts=pulumi.ResourceOptions(depends_on=[way_out]),
)

pulumi.export("kubeconfig", cluster.kubeconfig)
