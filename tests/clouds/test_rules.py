"""Every documented rule: what it lets by, and what it refuses."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clouds.legal import LEGAL, STANDING, edited, permission, trust
from tests.clouds.standin.judge import judge
from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import every, rules_among, rules_of
from tests.clouds.standin.rules.eks import AUTO
from tests.clouds.standin.tables import TABLES, aws_account, compute, ec2, eks, events, gke, google_project
from tests.clouds.standin.values import Inputs

POOL, CLUSTER = gke.POOL_TYPE, gke.CLUSTER_TYPE
GROUP, TEMPLATE = eks.NODE_GROUP_TYPE, eks.TEMPLATE_TYPE
LASTING: dict[str, Any] = {
    "queuedProvisioning": None,
    "nodeConfig.flexStart": None,
    "nodeConfig.maxRunDuration": None,
}

SLICE: dict[str, Any] = {
    "nodeConfig.machineType": "ct6e-standard-4t",
    "nodeConfig.guestAccelerators": None,
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    "autoscaling.totalMaxNodeCount": None,
    "autoscaling.maxNodeCount": 4,
}


@dataclass(frozen=True)
class Break:
    """Edits that break one rule; `elsewhere` edits what stands: (type, name) -> edits."""

    rule: str
    token: str
    edits: dict[str, Any] = field(default_factory=dict)
    elsewhere: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rule}-{'-'.join(map(str, self.edits.values()))[:40]}"


WITHOUT_A_CHANNEL = {(CLUSTER, "prod"): {"releaseChannel.channel": "UNSPECIFIED"}}
ROLE = "arn:aws:iam::123456789012:role/"
BREAKS = [
    Break("cluster_names_are_legal", CLUSTER, {"name": "Prod_1"}),
    Break(
        "a_zonal_cluster_names_its_zone_once",
        CLUSTER,
        {"location": "us-central1-a", "nodeLocations": ["us-central1-a"]},
    ),
    Break("private_nodes_need_vpc_native", CLUSTER, {"ipAllocationPolicy": None}),
    Break(
        "a_private_endpoint_needs_private_nodes",
        CLUSTER,
        {"privateClusterConfig": {"enablePrivateEndpoint": True}},
    ),
    Break(
        "the_control_plane_range_is_a_28",
        CLUSTER,
        {"privateClusterConfig.masterIpv4CidrBlock": "172.16.0.0/24"},
    ),
    Break("dataplane_v2_excludes_calico", CLUSTER, {"networkPolicy": {"enabled": True}}),
    Break("dataplane_v2_needs_vpc_native", CLUSTER, {"networkingMode": "ROUTES"}),
    Break("the_workload_pool_is_the_projects", CLUSTER, {"workloadIdentityConfig.workloadPool": "acme.goog"}),
    Break("a_removed_default_pool_had_a_node", CLUSTER, {"initialNodeCount": None}),
    Break(
        "maintenance_windows_are_long_enough",
        CLUSTER,
        {"maintenancePolicy.recurringWindow.recurrence": "FREQ=WEEKLY;BYDAY=SA"},
    ),
    Break(
        "maintenance_windows_are_long_enough",
        CLUSTER,
        {"maintenancePolicy.recurringWindow.endTime": "2026-01-10T05:00:00Z"},
    ),
    Break(
        "exclusions_stand_beside_a_window_and_end_once",
        CLUSTER,
        {"maintenancePolicy.maintenanceExclusions.0.endTime": "2027-01-11T00:00:00Z"},
    ),
    Break(
        "exclusions_stand_beside_a_window_and_end_once", CLUSTER, {"maintenancePolicy.recurringWindow": None}
    ),
    Break("encryption_names_its_key", CLUSTER, {"databaseEncryption.keyName": None}),
    Break(
        "authorised_networks_are_ranges",
        CLUSTER,
        {"masterAuthorizedNetworksConfig.cidrBlocks.0.cidrBlock": "192.0.2.1"},
    ),
    Break("pool_names_are_legal", POOL, {"name": "H100"}),
    Break("queued_pools_begin_empty", POOL, {"autoscaling.totalMinNodeCount": 1}),
    Break("queued_pools_begin_empty", POOL, {"initialNodeCount": 1}),
    Break("gpus_are_sold_in_the_pools_zones", POOL, {"nodeLocations": ["us-central1-f"]}),
    Break("gpus_are_sold_in_the_pools_zones", POOL, {"nodeLocations": None}),
    Break("queued_pools_begin_empty", POOL, {"nodeCount": 2}),
    Break("queued_pools_begin_empty", POOL, {"autoscaling": None}),
    Break("queued_pools_take_any_zone", POOL, {"autoscaling.locationPolicy": "BALANCED"}),
    Break("queued_pools_take_no_reservation", POOL, {"nodeConfig.reservationAffinity": None}),
    Break("queued_pools_are_not_spot", POOL, {"nodeConfig.spot": True}),
    Break("queued_pools_have_no_compact_placement", POOL, {"placementPolicy": {"type": "COMPACT"}}),
    Break(
        "queued_pools_have_no_compact_placement",
        POOL,
        {"queuedProvisioning": None, "placementPolicy": {"type": "COMPACT"}},
    ),
    Break("flex_pools_are_not_repaired", POOL, {"management.autoRepair": True}),
    Break("flex_pools_are_not_repaired", POOL, {"management": None}),
    Break("run_durations_are_of_flex_pools", POOL, {"nodeConfig.maxRunDuration": "60s"}),
    Break(
        "run_durations_are_of_flex_pools", POOL, {"queuedProvisioning": None, "nodeConfig.flexStart": None}
    ),
    Break("limits_are_per_zone_or_total", POOL, {"autoscaling.maxNodeCount": 3}),
    Break("limits_are_per_zone_or_total", POOL, {**LASTING, "autoscaling.totalMinNodeCount": 9}),
    Break("machines_have_their_own_gpus", POOL, {"nodeConfig.guestAccelerators.0.type": "nvidia-l4"}),
    Break("machines_have_their_own_gpus", POOL, {"nodeConfig.guestAccelerators.0.count": 4}),
    Break("machines_have_their_own_gpus", POOL, {"nodeConfig.guestAccelerators": None}),
    Break("machines_have_their_own_gpus", POOL, {"nodeConfig.machineType": "e2-standard-4"}),
    *(
        Break("slices_are_whole", POOL, {**SLICE, **edits})
        for edits in (
            {"nodeConfig.machineType": "e2-standard-4"},
            {"autoscaling.maxNodeCount": 8},
            {"autoscaling.maxNodeCount": None},
            {"nodeLocations": ["us-central1-a", "us-central1-b"]},
            {"placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2"}, "autoscaling.maxNodeCount": 1},
            {"placementPolicy": {"tpuTopology": "4x4"}},
        )
    ),
    Break(
        "a_reservation_is_named",
        POOL,
        {**LASTING, "nodeConfig.reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION"}},
    ),
    Break("a_reservation_is_named", POOL, {"nodeConfig.reservationAffinity.values": ["mine"]}),
    Break(
        "the_driver_has_one_owner",
        POOL,
        {"nodeConfig.labels": {"gke-no-default-nvidia-gpu-device-plugin": "true"}},
    ),
    Break("labels_leave_kubernetes_names_alone", POOL, {"nodeConfig.labels": {"node.kubernetes.io/x": "y"}}),
    Break("surges_move", POOL, {"upgradeSettings": {"maxSurge": 0, "maxUnavailable": 0}}),
    Break("a_channel_upgrades_its_pools", POOL, {"management.autoUpgrade": False}),
    Break("unchannelled_queued_pools_are_not_upgraded", POOL, {}, WITHOUT_A_CHANNEL),
    Break("pools_stand_where_their_cluster_does", POOL, {"location": "us-central1-a"}),
    Break("pools_stand_where_their_cluster_does", POOL, {"nodeLocations": ["us-east1-b"]}),
    Break(
        "ranges_of_a_subnetwork_are_apart",
        compute.SUBNETWORK_TYPE,
        {"secondaryIpRanges.0.ipCidrRange": "10.0.8.0/24"},
    ),
    Break("ranges_of_a_subnetwork_are_apart", compute.SUBNETWORK_TYPE, {"ipCidrRange": "10.0.0.1/20"}),
    Break("nodes_without_addresses_reach_google", compute.SUBNETWORK_TYPE, {"privateIpGoogleAccess": None}),
    Break("a_nat_has_addresses_or_takes_them", compute.NAT.token, {"natIpAllocateOption": "MANUAL_ONLY"}),
    Break("account_ids_are_legal", google_project.ACCOUNT_TYPE, {"accountId": "n"}),
    Break("grants_name_a_role_and_a_member", google_project.PROJECT_GRANT.token, {"role": "editor"}),
    Break("grants_name_a_role_and_a_member", google_project.PROJECT_GRANT.token, {"member": "nodes@acme"}),
    Break("grants_name_a_role_and_a_member", google_project.BUCKET_GRANT.token, {"role": "objectViewer"}),
    Break("grants_name_a_role_and_a_member", google_project.ACCOUNT_GRANT.token, {"member": "team/default"}),
    Break(
        "grants_name_their_account_by_its_path",
        google_project.ACCOUNT_GRANT.token,
        {"serviceAccountId": "team@acme.iam.gserviceaccount.com"},
    ),
    Break("buckets_have_legal_names", google_project.BUCKET_GRANT.token, {"bucket": "gs://datasets"}),
    Break(
        "an_endpoint_answers_somewhere",
        eks.CLUSTER_TYPE,
        {"vpcConfig.endpointPublicAccess": False, "vpcConfig.endpointPrivateAccess": False},
    ),
    Break(
        "public_ranges_need_a_public_endpoint", eks.CLUSTER_TYPE, {"vpcConfig.endpointPublicAccess": False}
    ),
    Break("secrets_alone_are_encrypted", eks.CLUSTER_TYPE, {"encryptionConfig.resources": ["configmaps"]}),
    Break("control_planes_stand_in_two_zones", eks.CLUSTER_TYPE, {"vpcConfig.subnetIds": ["subnet-a"]}),
    Break("the_cluster_role_trusts_eks", eks.CLUSTER_TYPE, {"roleArn": f"{ROLE}nodes"}),
    Break("auto_mode_is_whole", eks.CLUSTER_TYPE, {"computeConfig.enabled": True}),
    Break("auto_mode_is_whole", eks.CLUSTER_TYPE, dict.fromkeys(AUTO, True)),
    Break("auto_mode_is_whole", eks.CLUSTER_TYPE, {"computeConfig.nodePools": ["system"]}),
    Break("auto_modes_role_tags_sessions", eks.CLUSTER_TYPE, {"computeConfig.enabled": True}),
    Break("queues_have_short_names", events.QUEUE_TYPE, {"name": "a queue"}),
    Break("queues_have_short_names", events.QUEUE_TYPE, {"messageRetentionSeconds": 30}),
    Break("queue_policies_name_who", events.QUEUE_POLICY_TYPE, {"policy": permission("sqs:SendMessage")}),
    Break("queue_policies_name_who", events.QUEUE_POLICY_TYPE, {"policy": trust("x", "sqs:Shout")}),
    Break("patterns_are_lists", events.RULE_TYPE, {"eventPattern": "aws.ec2"}),
    Break("patterns_are_lists", events.RULE_TYPE, {"eventPattern": '{"source": "aws.ec2"}'}),
    Break(
        "entries_need_a_mode_that_has_them",
        eks.ACCESS_ENTRY_TYPE,
        {},
        {(eks.CLUSTER_TYPE, "prod"): {"accessConfig.authenticationMode": "CONFIG_MAP"}},
    ),
    Break("groups_are_not_the_systems", eks.ACCESS_ENTRY_TYPE, {"kubernetesGroups": ["system:masters"]}),
    Break("groups_are_not_the_systems", eks.ACCESS_ENTRY_TYPE, {"type": "EC2_LINUX"}),
    Break(
        "access_policies_are_ekss",
        eks.ACCESS_POLICY_TYPE,
        {"policyArn": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"},
    ),
    Break("access_policies_are_ekss", eks.ACCESS_POLICY_TYPE, {"accessScope.namespaces": ["team-a"]}),
    Break("policies_need_an_entry", eks.ACCESS_POLICY_TYPE, {"principalArn": f"{ROLE}nobody"}),
    *(
        Break("configuration_is_of_the_add_on", eks.ADDON.token, {"configurationValues": values})
        for values in (
            "enableNetworkPolicy: true",
            "[]",
            '{"enableNetworkPolicy": true}',
            '{"defaultStorageClass": {"enabled": true}}',
        )
    ),
    Break("rights_are_of_the_add_on", eks.ADDON.token, {"addonName": "ebs-csi-driver"}),
    Break(
        "rights_are_of_the_add_on",
        eks.ADDON.token,
        {"podIdentityAssociations": [{"serviceAccount": "ebs-csi-controller-sa", "roleArn": f"{ROLE}nodes"}]},
    ),
    Break("pod_roles_trust_pod_identity", eks.POD_IDENTITY_TYPE, {"roleArn": f"{ROLE}nodes"}),
    Break("sizes_are_in_order", GROUP, {"scalingConfig.desiredSize": 5}),
    Break("blocks_need_a_template", GROUP, {"launchTemplate": None}),
    Break("blocks_need_a_template", GROUP, {"instanceTypes": ["p5.48xlarge"]}),
    Break("a_blocks_template_targets_it", GROUP, {"capacityType": "ON_DEMAND"}),
    *(
        Break("a_blocks_template_targets_it", GROUP, {}, {(TEMPLATE, "lt-block"): {path: None}})
        for path in ("instanceMarketOptions", "capacityReservationSpecification", "instanceType")
    ),
    Break("blocks_stand_in_one_zone", GROUP, {"subnetIds": ["subnet-a", "subnet-b"]}),
    Break("one_place_says_the_instance", GROUP, {"diskSize": 100}),
    Break("one_place_says_the_instance", GROUP, {}, {(TEMPLATE, "lt-block"): {"imageId": "ami-1"}}),
    Break("the_node_role_trusts_ec2", GROUP, {"nodeRoleArn": f"{ROLE}prod"}),
    Break("nodes_are_no_newer_than_their_cluster", GROUP, {"version": "1.35"}),
    Break(
        "taints_are_few", GROUP, {"taints": [{"key": f"k{n}", "effect": "NO_SCHEDULE"} for n in range(51)]}
    ),
    Break("updates_have_one_measure", GROUP, {"updateConfig.maxUnavailablePercentage": 10}),
    Break("interfaces_carry_the_groups", TEMPLATE, {"vpcSecurityGroupIds": ["sg-1"]}),
    Break("efa_interfaces_sit_on_their_cards", TEMPLATE, {"networkInterfaces.1.networkCardIndex": 0}),
    Break("efa_interfaces_sit_on_their_cards", TEMPLATE, {"networkInterfaces.0.deviceIndex": 1}),
    Break(
        "efa_interfaces_sit_on_their_cards",
        TEMPLATE,
        {"networkInterfaces.1": {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}},
    ),
    Break(
        "several_interfaces_have_no_public_address",
        TEMPLATE,
        {"networkInterfaces.0.associatePublicIpAddress": "true"},
    ),
    Break("user_data_is_encoded", TEMPLATE, {"userData": "#cloud-config"}),
    Break("user_data_is_encoded", TEMPLATE, {"userData": "QUFB" * 6000}),
    Break(
        "reservations_have_one_target",
        TEMPLATE,
        {
            "capacityReservationSpecification.capacityReservationTarget."
            "capacityReservationResourceGroupArn": "arn:aws:resource-groups:::group/g"
        },
    ),
    Break(
        "reservations_have_one_target",
        TEMPLATE,
        {"capacityReservationSpecification.capacityReservationTarget.capacityReservationId": "mine"},
    ),
    Break(
        "a_market_wants_no_preference",
        TEMPLATE,
        {"capacityReservationSpecification.capacityReservationPreference": "open"},
    ),
    Break("vpcs_have_a_size", ec2.VPC_TYPE, {"cidrBlock": "10.0.0.0/8"}),
    Break("eks_needs_names_in_its_vpc", ec2.VPC_TYPE, {"enableDnsHostnames": None}),
    Break("eks_needs_names_in_its_vpc", ec2.VPC_TYPE, {"enableDnsSupport": False}),
    Break("subnets_have_a_size", eks.SUBNET_TYPE, {"cidrBlock": "10.0.0.0/30"}),
    Break("subnets_lie_in_their_vpc", eks.SUBNET_TYPE, {"cidrBlock": "10.1.0.0/20"}),
    Break("public_nats_have_an_address", ec2.NAT_TYPE, {"allocationId": None}),
    Break("trust_is_a_policy", eks.ROLE_TYPE, {"assumeRolePolicy": "trust everybody"}),
    Break("trust_is_a_policy", eks.ROLE_TYPE, {"assumeRolePolicy": permission("sts:AssumeRole")}),
    Break("policies_are_policies", aws_account.POLICY_TYPE, {"policy": permission("ec2:GuessInstances")}),
    Break(
        "inline_policies_are_policies",
        aws_account.ROLE_POLICY.token,
        {"policy": trust("x", "*").replace("2012-10-17", "2008-10-17")},
    ),
]


def _refused(broken: Break) -> list[Refusal]:
    inputs = edited(LEGAL[broken.token], broken.edits)
    standing = {place: edited(found, broken.elsewhere.get(place, {})) for place, found in STANDING.items()}

    def find(token: str, name: Any) -> Inputs | None:
        return standing.get((token, str(name)))

    alone, among = rules_of(broken.token), rules_among(broken.token)
    if broken.rule in alone:
        return list(alone[broken.rule](inputs))
    return list(among[broken.rule](inputs, find))


@pytest.mark.parametrize("broken", BREAKS, ids=str)
def test_a_broken_rule_is_refused_with_its_path(broken: Break) -> None:
    refusals = _refused(broken)
    assert refusals
    assert all(refusal.path and refusal.reason for refusal in refusals)


def test_every_rule_is_broken_by_a_test_and_names_its_source() -> None:
    assert {broken.rule for broken in BREAKS} == set(every())
    assert all((rule.__doc__ or "").strip() for rule in every().values())


@pytest.mark.parametrize("token", LEGAL)
def test_legal_inputs_are_taken(token: str) -> None:
    assert judge(TABLES[token], LEGAL[token], rules_of(token)) == []
    for rule in rules_among(token).values():
        assert list(rule(LEGAL[token], lambda kind, name: STANDING.get((kind, str(name))))) == []
