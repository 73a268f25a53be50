"""What EKS and EC2 say of managed node groups and their launch templates beyond their service models.

Capacity blocks: https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html. Launch templates:
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone, among
from tests.clouds.standin.rules.trust import trusts
from tests.clouds.standin.tables.ec2 import PLACEMENT_TYPE
from tests.clouds.standin.tables.eks import (
    CLUSTER_TYPE,
    NODE_GROUP_TYPE,
    ROLE_TYPE,
    SUBNET_TYPE,
    TEMPLATE_TYPE,
)
from tests.clouds.standin.values import Inputs, each, get

Find = Callable[[str, Any], Inputs | None]

_BLOCK = "capacity-block"
_TARGET = "capacityReservationSpecification.capacityReservationTarget"


def _template(inputs: Inputs, find: Find) -> Inputs:
    named = get(inputs, "launchTemplate.id") or get(inputs, "launchTemplate.name")
    return (find(TEMPLATE_TYPE, named) if named else None) or {}


def _is_block(inputs: Inputs) -> bool:
    return bool(get(inputs, "capacityType") == "CAPACITY_BLOCK")


@alone(NODE_GROUP_TYPE)
def sizes_are_in_order(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html"""
    least, wanted, most = (get(inputs, f"scalingConfig.{name}Size") for name in ("min", "desired", "max"))
    if None not in (least, wanted, most) and not least <= wanted <= most:
        yield Refusal(
            "scalingConfig", f"minSize {least}, desiredSize {wanted}, maxSize {most} are out of order"
        )


@alone(NODE_GROUP_TYPE)
def blocks_need_a_template(inputs: Inputs) -> Iterator[Refusal]:
    """A capacity block goes by a custom launch template, which names the instance type."""
    if _is_block(inputs) and not inputs.get("launchTemplate"):
        yield Refusal("launchTemplate", "a capacity block needs a launch template")
    if _is_block(inputs) and inputs.get("instanceTypes"):
        yield Refusal("instanceTypes", "stand in the launch template of a capacity block, not here")


@among(NODE_GROUP_TYPE)
def a_blocks_template_targets_it(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """Market type capacity-block, the reservation's id and an instance type in the template."""
    template = _template(inputs, find)
    if not _is_block(inputs):
        if get(template, "instanceMarketOptions.marketType") == _BLOCK:
            yield Refusal("capacityType", "is CAPACITY_BLOCK with a template of that market type")
        return
    for path, wanted in (
        ("instanceMarketOptions.marketType", _BLOCK),
        (f"{_TARGET}.capacityReservationId", None),
        ("instanceType", None),
    ):
        if not get(template, path) or wanted not in (None, get(template, path)):
            yield Refusal("launchTemplate", f"the template's {path} is missing or is not {wanted}")


@among(NODE_GROUP_TYPE)
def blocks_stand_in_one_zone(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """A capacity block lies in one zone, and so do the group's subnets; so does a cluster placement group
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html).
    """
    group = find(PLACEMENT_TYPE, get(_template(inputs, find), "placement.groupName")) or {}
    zones = {(find(SUBNET_TYPE, each_) or {}).get("availabilityZone") for each_ in each(inputs, "subnetIds")}
    if (_is_block(inputs) or group.get("strategy") == "cluster") and len(zones) != 1:
        yield Refusal("subnetIds", f"lie in one zone here, not in {sorted(map(str, zones))}")


@among(NODE_GROUP_TYPE)
def one_place_says_the_instance(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """Launch template basics: what the template sets cannot be set on the node group, and an instance type
    must stand in exactly one of them.
    """
    template = _template(inputs, find)
    if get(template, "instanceType") and inputs.get("instanceTypes"):
        yield Refusal("instanceTypes", "the launch template has an instance type already")
    if inputs.get("launchTemplate") and inputs.get("diskSize"):
        yield Refusal("diskSize", "cannot be set with a launch template")
    if get(template, "imageId") and get(inputs, "amiType") not in (None, "CUSTOM"):
        yield Refusal("amiType", "cannot be set where the launch template names an image")


@among(NODE_GROUP_TYPE)
def the_node_role_trusts_ec2(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"""
    role = find(ROLE_TYPE, inputs.get("nodeRoleArn"))
    if role is not None and not trusts(role, "ec2.amazonaws.com", "sts:AssumeRole"):
        yield Refusal("nodeRoleArn", "the role does not trust ec2.amazonaws.com")


@among(NODE_GROUP_TYPE)
def nodes_are_no_newer_than_their_cluster(inputs: Inputs, find: Find) -> Iterator[Refusal]:
    """CreateNodegroup: a version that is not the cluster's is refused at creation."""
    cluster = find(CLUSTER_TYPE, inputs.get("clusterName")) or {}
    mine, its = get(inputs, "version"), get(cluster, "version")
    if mine and its and tuple(map(int, mine.split("."))) > tuple(map(int, its.split("."))):
        yield Refusal("version", f"{mine} is above the cluster's {its}")


@alone(NODE_GROUP_TYPE)
def taints_are_few(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html: at most 50."""
    if len(each(inputs, "taints")) > 50:
        yield Refusal("taints", "more than 50 are refused")


@alone(NODE_GROUP_TYPE)
def updates_have_one_measure(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html: a number or a
    percentage.
    """
    config = inputs.get("updateConfig")
    if config and len({"maxUnavailable", "maxUnavailablePercentage"} & set(config)) != 1:
        yield Refusal("updateConfig", "has maxUnavailable or maxUnavailablePercentage, one of them")


@alone(TEMPLATE_TYPE)
def interfaces_carry_the_groups(inputs: Inputs) -> Iterator[Refusal]:
    """RunInstances: "Network interfaces and an instance-level security groups may not be specified on the
    same request".
    """
    if inputs.get("networkInterfaces") and inputs.get("vpcSecurityGroupIds"):
        yield Refusal("vpcSecurityGroupIds", "stand on the network interfaces where there are some")


@alone(TEMPLATE_TYPE)
def efa_interfaces_sit_on_their_cards(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html: the first interface is
    device 0 of card 0, a card has one EFA interface, and no two interfaces share a card and device.
    """
    taken: set[tuple[int, int]] = set()
    fabric: set[int] = set()
    for index, interface in enumerate(each(inputs, "networkInterfaces")):
        card, device = interface.get("networkCardIndex", 0), interface.get("deviceIndex", 0)
        if (card, device) in taken:
            path = f"networkInterfaces[{index}].deviceIndex"
            yield Refusal(path, f"device {device} of card {card} is taken already")
        taken.add((card, device))
        if str(interface.get("interfaceType", "")).startswith("efa"):
            if card in fabric:
                path = f"networkInterfaces[{index}].networkCardIndex"
                yield Refusal(path, f"card {card} has an EFA interface already")
            fabric.add(card)
    if taken and (0, 0) not in taken:
        yield Refusal("networkInterfaces", "the first interface is device 0 of card 0")


@alone(TEMPLATE_TYPE)
def several_interfaces_have_no_public_address(inputs: Inputs) -> Iterator[Refusal]:
    """RunInstances: "The associatePublicIPAddress parameter cannot be specified when launching with multiple
    network interfaces".
    """
    interfaces = each(inputs, "networkInterfaces")
    if len(interfaces) > 1 and any(one.get("associatePublicIpAddress") == "true" for one in interfaces):
        yield Refusal("networkInterfaces", "no public address with several interfaces")


@alone(TEMPLATE_TYPE)
def user_data_is_encoded(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html: base64, at
    most 16 KB before encoding.
    """
    data = get(inputs, "userData")
    if not isinstance(data, str):
        return
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        yield Refusal("userData", "is base64")
        return
    if len(decoded) > 16 * 1024:
        yield Refusal("userData", "is more than 16 KB")


@alone(TEMPLATE_TYPE)
def reservations_have_one_target(inputs: Inputs) -> Iterator[Refusal]:
    """EC2: a reservation's id (cr-...) or a resource group's ARN, not both; a capacity block goes by id."""
    id_, group = (get(inputs, f"{_TARGET}.capacityReservation{name}") for name in ("Id", "ResourceGroupArn"))
    if id_ and group:
        yield Refusal(_TARGET, "has a reservation or a resource group, not both")
    if id_ and not re.fullmatch(r"cr-[0-9a-f]{8,17}", id_):
        yield Refusal(f"{_TARGET}.capacityReservationId", f"{id_!r} is no id of a reservation")


@alone(TEMPLATE_TYPE)
def a_market_wants_no_preference(inputs: Inputs) -> Iterator[Refusal]:
    """EC2 CapacityReservationPreference: open and none take no target."""
    preference = get(inputs, "capacityReservationSpecification.capacityReservationPreference")
    if preference in ("open", "none") and get(inputs, _TARGET):
        yield Refusal(_TARGET, f"preference {preference} takes no target")
