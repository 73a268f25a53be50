"""Launch templates: what an instance of a node group is, service ec2.

Every change but one of the name is a new version of the same template: resourceLaunchTemplateUpdate in
github.com/hashicorp/terraform-provider-aws, internal/service/ec2/ec2_launch_template.go at 025e4f81.
"""

from typing import Final

from tests.clouds.standin.table import Own, Pairs, Place, Table
from tests.clouds.standin.tables.ec2 import GROUP_TYPE, PLACEMENT_TYPE, TAGS
from tests.clouds.standin.tables.eks import REGION, TEMPLATE_TYPE

_DATA: Final[dict[str, str]] = {
    "imageId": "ImageId",
    "instanceType": "InstanceType",
    "keyName": "KeyName",
    "userData": "UserData",
    "ebsOptimized": "EbsOptimized",
    "vpcSecurityGroupIds": "SecurityGroupIds",
    "instanceMarketOptions.marketType": "InstanceMarketOptions.MarketType",
    "capacityReservationSpecification.capacityReservationPreference": (
        "CapacityReservationSpecification.CapacityReservationPreference"
    ),
    "capacityReservationSpecification.capacityReservationTarget.capacityReservationId": (
        "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
    ),
    "capacityReservationSpecification.capacityReservationTarget.capacityReservationResourceGroupArn": (
        "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn"
    ),
    "metadataOptions.httpEndpoint": "MetadataOptions.HttpEndpoint",
    "metadataOptions.httpTokens": "MetadataOptions.HttpTokens",
    "metadataOptions.httpPutResponseHopLimit": "MetadataOptions.HttpPutResponseHopLimit",
    "metadataOptions.instanceMetadataTags": "MetadataOptions.InstanceMetadataTags",
    "blockDeviceMappings.deviceName": "BlockDeviceMappings.DeviceName",
    "blockDeviceMappings.virtualName": "BlockDeviceMappings.VirtualName",
    "blockDeviceMappings.noDevice": "BlockDeviceMappings.NoDevice",
    "blockDeviceMappings.ebs.volumeSize": "BlockDeviceMappings.Ebs.VolumeSize",
    "blockDeviceMappings.ebs.volumeType": "BlockDeviceMappings.Ebs.VolumeType",
    "blockDeviceMappings.ebs.iops": "BlockDeviceMappings.Ebs.Iops",
    "blockDeviceMappings.ebs.throughput": "BlockDeviceMappings.Ebs.Throughput",
    "blockDeviceMappings.ebs.encrypted": "BlockDeviceMappings.Ebs.Encrypted",
    "blockDeviceMappings.ebs.kmsKeyId": "BlockDeviceMappings.Ebs.KmsKeyId",
    "blockDeviceMappings.ebs.deleteOnTermination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
    "networkInterfaces.deviceIndex": "NetworkInterfaces.DeviceIndex",
    "networkInterfaces.networkCardIndex": "NetworkInterfaces.NetworkCardIndex",
    "networkInterfaces.interfaceType": "NetworkInterfaces.InterfaceType",
    "networkInterfaces.securityGroups": "NetworkInterfaces.Groups",
    "networkInterfaces.deleteOnTermination": "NetworkInterfaces.DeleteOnTermination",
    "networkInterfaces.associatePublicIpAddress": "NetworkInterfaces.AssociatePublicIpAddress",
    "networkInterfaces.description": "NetworkInterfaces.Description",
    "placement.groupName": "Placement.GroupName",
    "placement.groupId": "Placement.GroupId",
    "placement.availabilityZone": "Placement.AvailabilityZone",
    "placement.tenancy": "Placement.Tenancy",
    "monitoring.enabled": "Monitoring.Enabled",
    "tagSpecifications.resourceType": "TagSpecifications.ResourceType",
}
_UPDATES: Final[dict[str, Place]] = {
    **{path: f"LaunchTemplateData.{place}" for path, place in _DATA.items()},
    "tagSpecifications.tags": Pairs("LaunchTemplateData.TagSpecifications.Tags"),
    "description": "VersionDescription",
    "updateDefaultVersion": Own("makes the newest version the default one", kind="boolean"),
    "defaultVersion": Own("ec2 ModifyLaunchTemplate.DefaultVersion", kind="integer"),
    "tags": TAGS,
}

LAUNCH_TEMPLATE: Final = Table(
    token=TEMPLATE_TYPE,
    sdk="pulumi_aws.ec2:LaunchTemplateArgs",
    api="ec2:CreateLaunchTemplate",
    id="lt-{hex}",
    unique=("name",),
    autonamed="name",
    replaces={"name": "LaunchTemplateName", "region": REGION},
    updates=_UPDATES,
    refers={
        "vpcSecurityGroupIds": (GROUP_TYPE,),
        "networkInterfaces.securityGroups": (GROUP_TYPE,),
        "placement.groupName": (PLACEMENT_TYPE,),
    },
    counts=("latestVersion", "defaultVersion"),
    outputs={
        "arn": "arn:aws:ec2:{region}:{account}:launch-template/{id}",
        "latestVersion": 1,
        "defaultVersion": 1,
    },
)

TABLES: Final = (LAUNCH_TEMPLATE,)
