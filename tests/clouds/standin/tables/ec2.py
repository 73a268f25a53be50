"""AWS's networks and placement groups, service ec2.

Which change replaces, and what stays when it is left out, is as in
github.com/hashicorp/terraform-provider-aws, internal/service/ec2: vpc_.go at 00081ce4, vpc_subnet.go at
00cda125, vpc_nat_gateway.go at 04088eaa, ec2_eip.go at 01606926, vpc_route.go at 0128541e,
vpc_route_table_association.go at 0be71beb, vpc_endpoint.go at 008db85a, vpc_security_group_ingress_rule.go
at 00a32209 (its source may change in value, not in kind), ec2_placement_group.go at 05e34de7.
"""

from typing import Final

from tests.clouds.standin.table import Own, Pairs, Place, Table
from tests.clouds.standin.tables.eks import REGION, SUBNET_TYPE

VPC_TYPE: Final = "aws:ec2/vpc:Vpc"
GATEWAY_TYPE: Final = "aws:ec2/internetGateway:InternetGateway"
ADDRESS_TYPE: Final = "aws:ec2/eip:Eip"
NAT_TYPE: Final = "aws:ec2/natGateway:NatGateway"
ROUTES_TYPE: Final = "aws:ec2/routeTable:RouteTable"
GROUP_TYPE: Final = "aws:ec2/securityGroup:SecurityGroup"
PLACEMENT_TYPE: Final = "aws:ec2/placementGroup:PlacementGroup"

TAGS: Final = Pairs("TagSpecifications.Tags")

VPC: Final = Table(
    token=VPC_TYPE,
    sdk="pulumi_aws.ec2:VpcArgs",
    api="ec2:CreateVpc",
    id="vpc-{hex}",
    replaces={"cidrBlock": "CidrBlock", "region": REGION},
    updates={
        "enableDnsHostnames": "ec2:ModifyVpcAttribute/EnableDnsHostnames.Value",
        "enableDnsSupport": "ec2:ModifyVpcAttribute/EnableDnsSupport.Value",
        "instanceTenancy": "InstanceTenancy",
        "tags": TAGS,
    },
    keeps=frozenset({"cidrBlock", "enableDnsHostnames"}),
    outputs={
        "arn": "arn:aws:ec2:{region}:{account}:vpc/{id}",
        "defaultSecurityGroupId": "sg-{hex}",
        "mainRouteTableId": "rtb-{hex}",
    },
)

SUBNET: Final = Table(
    token=SUBNET_TYPE,
    sdk="pulumi_aws.ec2:SubnetArgs",
    api="ec2:CreateSubnet",
    id="subnet-{hex}",
    replaces={
        "vpcId": "VpcId",
        "cidrBlock": "CidrBlock",
        "availabilityZone": "AvailabilityZone",
        "region": REGION,
    },
    updates={"mapPublicIpOnLaunch": "ec2:ModifySubnetAttribute/MapPublicIpOnLaunch.Value", "tags": TAGS},
    refers={"vpcId": (VPC_TYPE,)},
    outputs={"arn": "arn:aws:ec2:{region}:{account}:subnet/{id}"},
)

GATEWAY: Final = Table(
    token=GATEWAY_TYPE,
    sdk="pulumi_aws.ec2:InternetGatewayArgs",
    api="ec2:CreateInternetGateway",
    id="igw-{hex}",
    replaces={"region": REGION},
    updates={"vpcId": "ec2:AttachInternetGateway/VpcId", "tags": TAGS},
    refers={"vpcId": (VPC_TYPE,)},
)

ADDRESS: Final = Table(
    token=ADDRESS_TYPE,
    sdk="pulumi_aws.ec2:EipArgs",
    api="ec2:AllocateAddress",
    id="eipalloc-{hex}",
    replaces={"domain": "Domain", "region": REGION},
    updates={"tags": TAGS},
    outputs={"allocationId": "{id}", "publicIp": "192.0.2.1"},
)

NAT: Final = Table(
    token=NAT_TYPE,
    sdk="pulumi_aws.ec2:NatGatewayArgs",
    api="ec2:CreateNatGateway",
    id="nat-{hex}",
    seconds=120,
    timeout=600,
    replaces={
        "subnetId": "SubnetId",
        "allocationId": "AllocationId",
        "connectivityType": "ConnectivityType",
        "region": REGION,
    },
    updates={"tags": TAGS},
    refers={"subnetId": (SUBNET_TYPE,), "allocationId": (ADDRESS_TYPE,)},
)

ROUTES: Final = Table(
    token=ROUTES_TYPE,
    sdk="pulumi_aws.ec2:RouteTableArgs",
    api="ec2:CreateRouteTable",
    id="rtb-{hex}",
    replaces={"vpcId": "VpcId", "region": REGION},
    updates={
        "routes.cidrBlock": "ec2:CreateRoute/DestinationCidrBlock",
        "routes.gatewayId": "ec2:CreateRoute/GatewayId",
        "routes.natGatewayId": "ec2:CreateRoute/NatGatewayId",
        "tags": TAGS,
    },
    refers={"vpcId": (VPC_TYPE,), "routes.gatewayId": (GATEWAY_TYPE,), "routes.natGatewayId": (NAT_TYPE,)},
)

ROUTE: Final = Table(
    token="aws:ec2/route:Route",
    sdk="pulumi_aws.ec2:RouteArgs",
    api="ec2:CreateRoute",
    id="r-{routeTableId}{destinationCidrBlock}",
    unique=("routeTableId", "destinationCidrBlock"),
    replaces={
        "routeTableId": "RouteTableId",
        "destinationCidrBlock": "DestinationCidrBlock",
        "region": REGION,
    },
    updates={"gatewayId": "GatewayId", "natGatewayId": "NatGatewayId"},
    refers={"routeTableId": (ROUTES_TYPE,), "gatewayId": (GATEWAY_TYPE,), "natGatewayId": (NAT_TYPE,)},
)

ROUTE_ASSOCIATION: Final = Table(
    token="aws:ec2/routeTableAssociation:RouteTableAssociation",
    sdk="pulumi_aws.ec2:RouteTableAssociationArgs",
    api="ec2:AssociateRouteTable",
    id="rtbassoc-{hex}",
    unique=("subnetId",),
    replaces={"subnetId": "SubnetId", "gatewayId": "GatewayId", "region": REGION},
    updates={"routeTableId": "RouteTableId"},
    refers={"subnetId": (SUBNET_TYPE,), "routeTableId": (ROUTES_TYPE,)},
)

_RULE: Final = "ec2:AuthorizeSecurityGroupIngress/IpPermissions"


def _rules_of_a_group(way: str) -> dict[str, Place]:
    return {
        f"{way}.protocol": f"{_RULE}.IpProtocol",
        f"{way}.fromPort": f"{_RULE}.FromPort",
        f"{way}.toPort": f"{_RULE}.ToPort",
        f"{way}.cidrBlocks": f"{_RULE}.IpRanges.CidrIp",
        f"{way}.ipv6CidrBlocks": f"{_RULE}.Ipv6Ranges.CidrIpv6",
        f"{way}.description": f"{_RULE}.IpRanges.Description",
        f"{way}.securityGroups": f"{_RULE}.UserIdGroupPairs.GroupId",
        f"{way}.self": Own("the group itself as the other side", kind="boolean"),
    }


GROUP: Final = Table(
    token=GROUP_TYPE,
    sdk="pulumi_aws.ec2:SecurityGroupArgs",
    api="ec2:CreateSecurityGroup",
    id="sg-{hex}",
    autonamed="name",
    replaces={"name": "GroupName", "description": "Description", "vpcId": "VpcId", "region": REGION},
    updates={
        **_rules_of_a_group("ingress"),
        **_rules_of_a_group("egress"),
        "revokeRulesOnDelete": Own("drops rules that point at each other first", kind="boolean"),
        "tags": TAGS,
    },
    refers={"vpcId": (VPC_TYPE,)},
    outputs={"arn": "arn:aws:ec2:{region}:{account}:security-group/{id}"},
)

PLACEMENT: Final = Table(
    token=PLACEMENT_TYPE,
    sdk="pulumi_aws.ec2:PlacementGroupArgs",
    api="ec2:CreatePlacementGroup",
    id="{name}",
    unique=("name",),
    autonamed="name",
    replaces={
        "name": "GroupName",
        "strategy": "Strategy",
        "partitionCount": "PartitionCount",
        "spreadLevel": "SpreadLevel",
        "region": REGION,
    },
    updates={"tags": TAGS},
    outputs={"arn": "arn:aws:ec2:{region}:{account}:placement-group/{id}", "placementGroupId": "pg-{hex}"},
)


ENDPOINT: Final = Table(
    token="aws:ec2/vpcEndpoint:VpcEndpoint",
    sdk="pulumi_aws.ec2:VpcEndpointArgs",
    api="ec2:CreateVpcEndpoint",
    id="vpce-{hex}",
    replaces={
        "vpcId": "VpcId",
        "serviceName": "ServiceName",
        "vpcEndpointType": "VpcEndpointType",
        "region": REGION,
    },
    updates={
        "policy": "PolicyDocument",
        "routeTableIds": "RouteTableIds",
        "subnetIds": "SubnetIds",
        "securityGroupIds": "SecurityGroupIds",
        "privateDnsEnabled": "PrivateDnsEnabled",
        "tags": TAGS,
    },
    keeps=frozenset({"policy", "routeTableIds", "subnetIds", "securityGroupIds", "privateDnsEnabled"}),
    refers={"vpcId": (VPC_TYPE,), "routeTableIds": (ROUTES_TYPE,), "subnetIds": (SUBNET_TYPE,)},
    outputs={"arn": "arn:aws:ec2:{region}:{account}:vpc-endpoint/{id}"},
)


def _rule(way: str) -> Table:
    place = f"ec2:AuthorizeSecurityGroup{way}/IpPermissions"
    return Table(
        token=f"aws:vpc/securityGroup{way}Rule:SecurityGroup{way}Rule",
        sdk=f"pulumi_aws.vpc:SecurityGroup{way}RuleArgs",
        api=f"ec2:AuthorizeSecurityGroup{way}",
        id="sgr-{hex}",
        replaces={"securityGroupId": "GroupId", "region": REGION},
        updates={
            "ipProtocol": f"{place}.IpProtocol",
            "fromPort": f"{place}.FromPort",
            "toPort": f"{place}.ToPort",
            "cidrIpv4": f"{place}.IpRanges.CidrIp",
            "description": f"{place}.IpRanges.Description",
            "referencedSecurityGroupId": f"{place}.UserIdGroupPairs.GroupId",
            "tags": TAGS,
        },
    )


TABLES: Final = (
    *(VPC, SUBNET, GATEWAY, ADDRESS, NAT, ROUTES, ROUTE, ROUTE_ASSOCIATION),
    *(GROUP, PLACEMENT, ENDPOINT, _rule("Ingress"), _rule("Egress")),
)
