"""How a machine of an EKS pool is launched: disks, metadata service, network interfaces, placement, market,
reservation. One launch template a pool.
"""

import base64
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import EksCluster
from muster.model.nodes import Image, Placement
from muster.model.pools import Pool
from muster.render.user_data import user_data

# Bottlerocket keeps its own disk small and holds images and pods on a second one.
_DATA_DISK: Final = {Image.AL2023: "/dev/xvda", Image.BOTTLEROCKET: "/dev/xvdb"}


def launch_template(
    pool: Pool,
    cluster: EksCluster,
    *,
    name: str,
    groups: list[pulumi.Input[str]],
    placement: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> aws.ec2.LaunchTemplate:
    """`groups`: the security groups of its nodes; `placement`: their placement group. The image is the node
    group's business.
    """
    return aws.ec2.LaunchTemplate(
        name,
        description=f"Nodes of pool {pool.name} of the EKS cluster {cluster.name}",
        update_default_version=True,
        instance_type=pool.machine.name if pool.capacity is Capacity.CAPACITY_BLOCK else None,
        instance_market_options=_market(pool),
        capacity_reservation_specification=_reservation(pool.reservation),
        placement=(
            aws.ec2.LaunchTemplatePlacementArgs(group_name=placement) if placement is not None else None
        ),
        block_device_mappings=[disk(_DATA_DISK[pool.image or Image.AL2023], pool.boot_disk_gib)],
        metadata_options=metadata(),
        vpc_security_group_ids=None if pool.efa else groups,
        network_interfaces=_interfaces(pool.machine.efa, groups) if pool.efa else None,
        user_data=base64.b64encode(data.encode()).decode() if (data := user_data(pool)) else None,
        tag_specifications=tags(cluster, name),
        tags=dict(cluster.tags) or None,
        opts=opts,
    )


def placement_group(
    pool: Pool, cluster: EksCluster, *, name: str, opts: pulumi.ResourceOptions
) -> pulumi.Input[str] | None:
    """The name of the group in which its nodes are compact: the existing one, or one made here."""
    if pool.placement is not Placement.COMPACT:
        return None
    if pool.placement_group is not None:
        return pool.placement_group
    made = aws.ec2.PlacementGroup(name, strategy="cluster", tags=dict(cluster.tags) or None, opts=opts)
    group: pulumi.Output[str] = made.name
    return group


def disk(device: str, gib: int) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    """Under the account's own key for EBS: under another one the Auto Scaling service would need rights on
    it, and without them a node dies while it starts, with no message but "Client.InternalError".
    """
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=device,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=gib, volume_type="gp3", encrypted="true", delete_on_termination="true"
        ),
    )


def metadata() -> aws.ec2.LaunchTemplateMetadataOptionsArgs:
    """IMDSv2 within one hop: a pod is a hop further away and never gets the node's credentials."""
    return aws.ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled",
        http_tokens="required",
        http_put_response_hop_limit=1,
        instance_metadata_tags="disabled",
    )


def tags(cluster: EksCluster, name: str) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """What is launched carries the name of its pool: that is what a bill is read by."""
    return [
        aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags={**cluster.tags, "Name": name})
        for kind in ("instance", "volume")
    ]


def _market(pool: Pool) -> aws.ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    """Spot is set on the node group: EKS refuses it here."""
    if pool.capacity is not Capacity.CAPACITY_BLOCK:
        return None
    return aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")


def _reservation(
    reservation: Reservation | None,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs:
    """A pool takes from its own reservation and nothing else, and every other pool takes from none: EC2 would
    otherwise use up any open reservation of the same machine.
    """
    if reservation is None:
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
            capacity_reservation_preference="none"
        )
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=None if reservation.is_group else reservation.name,
        capacity_reservation_resource_group_arn=reservation.name if reservation.is_group else None,
    )
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_preference="capacity-reservations-only", capacity_reservation_target=target
    )


def _interfaces(
    count: int, groups: list[pulumi.Input[str]]
) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs]:
    """An ordinary interface for the node and its pods, and an EFA-only one on each network card.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    """
    first = _interface("interface", card=0, device=0, groups=groups)
    rest = [
        _interface("efa-only", card=card, device=1 if card == 0 else 0, groups=groups)
        for card in range(count)
    ]
    return [first, *rest]


def _interface(
    kind: str, *, card: int, device: int, groups: list[pulumi.Input[str]]
) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        interface_type=kind,
        network_card_index=card,
        device_index=device,
        security_groups=groups,
        delete_on_termination="true",
        associate_public_ip_address="false" if device == 0 and card == 0 else None,
    )
