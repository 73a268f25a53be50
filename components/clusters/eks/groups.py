"""The managed node groups of an EKS cluster: the system pool, and one for each zone of a pool of the stack.

A group over several zones is balanced by EC2 Auto Scaling, which ends nodes where there are more of them,
whatever runs there. It cannot be suspended for good, since EKS itself uses it in each update of a group.
https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html

Node counts belong to cluster-autoscaler: they are set once, at creation, and ignored afterwards.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks.network import Network
from muster.model import names
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import EksCluster
from muster.model.machines import AMD64, ARM64, Machine
from muster.model.node_labels import node_labels
from muster.model.pools import Image, Placement, Pool
from muster.render.karpenter import user_data

# How a machine of an EKS pool is launched: disks, metadata service, network interfaces, placement, market,
# reservation. One launch template a pool.

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


_COUNTS: Final = ["scalingConfig.desiredSize"]
_TIMEOUTS: Final = pulumi.CustomTimeouts(create="60m", update="90m", delete="60m")
_CAPACITY: Final = {Capacity.SPOT: "SPOT", Capacity.CAPACITY_BLOCK: "CAPACITY_BLOCK"}
_PROCESSORS: Final = {AMD64: "x86_64", ARM64: "ARM_64"}
# The NVIDIA ones hold driver and container toolkit, the Neuron ones the driver.
_VARIANTS: Final = {names.GPU_RESOURCE: "NVIDIA", names.NEURON_RESOURCE: "NEURON"}


class NodeGroups:
    """Makes them all alike: `of(pool)` and `system()`. `after`: what a group itself waits for."""

    def __init__(
        self,
        cluster: EksCluster,
        *,
        prefix: str,
        control_plane: aws.eks.Cluster,
        role_arn: pulumi.Input[str],
        network: Network,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        self._cluster, self._prefix, self._control_plane = cluster, prefix, control_plane
        self._role_arn, self._network, self._after, self._opts = role_arn, network, after, opts
        self._shared = control_plane.vpc_config.apply(lambda config: config.cluster_security_group_id or "")
        self._fabric: aws.ec2.SecurityGroup | None = None

    def of(self, pool: Pool) -> list[aws.eks.NodeGroup]:
        """One group for each of its zones, in their order, all launched alike."""
        described = self._cluster
        name = f"{self._prefix}-{pool.name}"
        template = launch_template(
            pool,
            described,
            name=name,
            groups=self._groups(pool),
            placement=placement_group(pool, described, name=name, opts=self._opts),
            opts=self._opts,
        )
        return [
            self._of_zone(pool, template, zone=zone, size=size)
            for zone, size in described.group_sizes(pool).items()
        ]

    def _of_zone(
        self, pool: Pool, template: aws.ec2.LaunchTemplate, *, zone: str, size: tuple[int, int]
    ) -> aws.eks.NodeGroup:
        name = self._cluster.group_name(pool, zone)
        described = self._cluster
        group = self._group(
            name,
            template,
            instance_types=None if pool.capacity is Capacity.CAPACITY_BLOCK else [pool.machine.name],
            ami_type=_ami(pool.image, pool.machine, pool.device if pool.is_gpu else ""),
            capacity_type=_CAPACITY.get(pool.capacity, "ON_DEMAND"),
            zones=(zone,),
            size=size,
            labels=node_labels(pool, described),
            taints=[_taint(pool)] if pool.is_gpu else None,
            # A gang's node is not taken away under it, and a reservation has none to put in its place.
            repair=pool.capacity in (Capacity.ON_DEMAND, Capacity.SPOT),
            # The default launches a new node before it ends the old one: a full reservation has none to give.
            frugal=pool.capacity.is_reserved,
            protect=described.protect and pool.capacity.is_reserved,
        )
        for key, value in template_tags(pool, described).items():
            self._tag(name, group, key, value)
        return group

    def system(self) -> aws.eks.NodeGroup:
        """Kueue, KubeRay, cluster-autoscaler and ours run here, apart from all work."""
        described, size = self._cluster, self._cluster.system_pool
        name = f"{self._prefix}-{names.SYSTEM_POOL}"
        template = aws.ec2.LaunchTemplate(
            name,
            description=f"Nodes of the system pool of the EKS cluster {described.name}",
            update_default_version=True,
            block_device_mappings=[disk("/dev/xvda", 100)],
            metadata_options=metadata(),
            vpc_security_group_ids=[self._shared],
            tag_specifications=tags(described, name),
            tags=dict(described.tags) or None,
            opts=self._opts,
        )
        return self._group(
            names.SYSTEM_POOL,
            template,
            instance_types=[size.machine.name],
            ami_type=_ami(Image.AL2023, size.machine),
            capacity_type="ON_DEMAND",
            zones=described.zones,
            size=(size.min_nodes, size.max_nodes),
            labels={names.POOL_LABEL: names.SYSTEM_POOL},
            taints=None,
            repair=True,
            frugal=False,
            protect=False,
        )

    def _group(
        self,
        name: str,
        template: aws.ec2.LaunchTemplate,
        *,
        instance_types: list[str] | None,
        ami_type: str,
        capacity_type: str,
        zones: tuple[str, ...],
        size: tuple[int, int],
        labels: dict[str, str],
        taints: list[aws.eks.NodeGroupTaintArgs] | None,
        repair: bool,
        frugal: bool,
        protect: bool,
    ) -> aws.eks.NodeGroup:
        """`frugal`: an update ends a node before it launches the next."""
        least, most = size
        return aws.eks.NodeGroup(
            f"{self._prefix}-{name}",
            node_group_name=name,
            cluster_name=self._control_plane.name,
            # The stack's, not the control plane's: nodes are not replaced when AWS raises that alone.
            version=self._cluster.version,
            node_role_arn=self._role_arn,
            subnet_ids=[self._network.subnets[zone] for zone in zones],
            ami_type=ami_type,
            capacity_type=capacity_type,
            instance_types=instance_types,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                desired_size=least, min_size=least, max_size=most
            ),
            # https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=1, update_strategy="MINIMAL" if frugal else "DEFAULT"
            ),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=repair),
            labels=labels,
            taints=taints,
            tags=dict(self._cluster.tags) or None,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                pulumi.ResourceOptions(
                    depends_on=list(self._after),
                    protect=protect,
                    ignore_changes=_COUNTS,
                    delete_before_replace=True,
                    custom_timeouts=_TIMEOUTS,
                ),
            ),
        )

    def _groups(self, pool: Pool) -> list[pulumi.Input[str]]:
        if not pool.efa:
            return [self._shared]
        if self._fabric is None:
            self._fabric = fabric(
                self._cluster, prefix=self._prefix, control_plane=self._control_plane, opts=self._opts
            )
        return [self._shared, self._fabric.id]

    def _tag(self, name: str, group: aws.eks.NodeGroup, key: str, value: str) -> None:
        aws.autoscaling.Tag(
            f"{self._prefix}-{name}-{key.removeprefix(_TEMPLATE)}",
            autoscaling_group_name=group.resources.apply(_scaling_group),
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
            opts=self._opts,
        )


def fabric(
    described: EksCluster, *, prefix: str, control_plane: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> aws.ec2.SecurityGroup:
    """EFA passes only where a group allows everything in both directions between its own members.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html
    """
    name = f"{prefix}-efa"
    group = aws.ec2.SecurityGroup(
        name,
        description="EFA traffic between nodes",
        vpc_id=control_plane.vpc_config.apply(lambda config: config.vpc_id or ""),
        tags={**described.tags, "Name": name},
        opts=opts,
    )
    own = group.id
    aws.vpc.SecurityGroupIngressRule(
        name, security_group_id=own, referenced_security_group_id=own, ip_protocol="-1", opts=opts
    )
    aws.vpc.SecurityGroupEgressRule(
        name, security_group_id=own, referenced_security_group_id=own, ip_protocol="-1", opts=opts
    )
    return group


_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template/"


def template_tags(pool: Pool, cluster: EksCluster) -> Mapping[str, str]:
    """What cluster-autoscaler has to know of a node of an empty group.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
    """
    found = {f"{_TEMPLATE}label/{key}": value for key, value in node_labels(pool, cluster).items()}
    found[f"{_TEMPLATE}resources/ephemeral-storage"] = f"{pool.boot_disk_gib}Gi"
    if pool.is_gpu:
        found[f"{_TEMPLATE}taint/{pool.device}"] = f"{names.GPU_TAINT_VALUE}:{names.GPU_TAINT_EFFECT}"
        found[f"{_TEMPLATE}resources/{pool.device}"] = str(pool.slots_per_node)
    if pool.efa:
        found[f"{_TEMPLATE}resources/{names.EFA_RESOURCE}"] = str(pool.machine.efa)
    return dict(sorted(found.items()))


def _ami(image: Image | None, machine: Machine, device: str = "") -> str:
    variant, processor = _VARIANTS.get(device, ""), _PROCESSORS[machine.architecture]
    if image is Image.BOTTLEROCKET:
        return "_".join(filter(None, ("BOTTLEROCKET", processor, variant)))
    return f"AL2023_{processor}_{variant or 'STANDARD'}"


def _taint(pool: Pool) -> aws.eks.NodeGroupTaintArgs:
    return aws.eks.NodeGroupTaintArgs(key=pool.device, value=names.GPU_TAINT_VALUE, effect="NO_SCHEDULE")


def _scaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource]) -> str:
    """EKS makes exactly one Auto Scaling group for a node group."""
    groups = resources[0].autoscaling_groups if resources else None
    return (groups[0].name or "") if groups else ""
