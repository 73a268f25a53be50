"""The stacks of both clouds as the engine is told them: what is installed where, and what never is."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.config import load
from muster.model.clusters import EksCluster, NodeProvisioner
from muster.model.queues import Department
from tests.mocks import shipped
from tests.mocks.recorder import Program

OWN = Path(__file__).parents[1] / "clouds" / "stacks"
IMAGE = shipped.IMAGE
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
BUNDLE = "muster:k8s:Bundle"
RELEASE = "kubernetes:helm.sh/v3:Release"
QUEUE = "q"


def platform(name: str) -> Program:
    return shipped.platform(shipped.shipped(name))


@pytest.fixture(scope="module")
def eks() -> Program:
    return platform("eks-prod")


@pytest.fixture(scope="module")
def gke() -> Program:
    return platform("gke-prod")


def test_compute_classes_are_there_before_a_team_can_submit() -> None:
    stack = replace(load(OWN / "gke-compute-classes.yaml"), images=IMAGE)
    program = shipped.platform(stack)
    (text,) = program.one(BUNDLE, "compute-classes-nodes").inputs["manifests"].values()
    classes = json.loads(text).values()
    assert {each["metadata"]["name"] for each in classes} == {pool.name for pool in stack.pools}
    for each in classes:
        assert "@" in each["spec"]["nodePoolConfig"]["serviceAccount"]
    tenancy = program.one(BUNDLE, "tenancy-policies")
    assert program.comes_after(tenancy, program.one(BUNDLE, "compute-classes-nodes"))


@pytest.mark.parametrize("name", ["gke-dev", "eks-dev"])
def test_a_dev_stack_can_be_destroyed(name: str) -> None:
    assert not [each.name for each in platform(name).resources if each.protect]


def test_everything_is_installed_into_the_cluster_that_the_stack_makes(gke: Program, eks: Program) -> None:
    for program in (gke, eks):
        installed = [
            each
            for each in program.resources
            if each.is_custom and each.type.startswith(("kubernetes:", "muster:k8s"))
        ]
        assert installed
        for each in installed:
            assert "::ml-prod-kubernetes::" in each.provider or "::ml-prod-bundles::" in each.provider


def test_gke_brings_its_own_autoscaler_and_kind_of_request(gke: Program, eks: Program) -> None:
    assert gke.one(BUNDLE, "crds").inputs["manifests"].keys() == {"gangpolicies", "queuetrees"}
    assert eks.one(BUNDLE, "crds").inputs["manifests"].keys() == {
        "gangpolicies",
        "provisioningrequests",
        "queuetrees",
    }
    assert not gke.of("muster:index:ClusterAutoscaler")


def autoscaler(program: Program) -> dict[str, Any]:
    found = program.one(DEPLOYMENT, "cluster-autoscaler-deployment").inputs
    return dict(found["spec"]["template"]["spec"])


def test_the_autoscaler_answers_requests_for_the_groups_of_its_cluster(eks: Program) -> None:
    pod = autoscaler(eks)
    (container,) = pod["containers"]
    assert "--enable-provisioning-requests=true" in container["command"]
    assert any(flag.endswith("k8s.io/cluster-autoscaler/ml-prod") for flag in container["command"])
    assert pod["nodeSelector"] == {"muster.dev/pool": "system"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_autoscaler_finds_requests_rights_and_identity_when_it_starts(eks: Program) -> None:
    deployment = eks.one(DEPLOYMENT, "cluster-autoscaler-deployment")
    binding = eks.one(
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "muster-cluster-autoscaler-clusterrolebinding",
    )
    assert eks.comes_after(deployment, eks.one(BUNDLE, "crds"))
    assert eks.comes_after(deployment, binding)
    provider = eks.one("pulumi:providers:kubernetes", "ml-prod-kubernetes")
    identity = eks.one("aws:eks/podIdentityAssociation:PodIdentityAssociation", "ml-prod-autoscaler")
    assert eks.comes_after(provider, identity)


def test_efa_is_advertised_on_the_pools_that_have_it_and_needs_no_quota(eks: Program) -> None:
    (found,) = eks.of("kubernetes:apps/v1:DaemonSet")
    pod = found.inputs["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "muster.dev/pool", "operator": "In", "values": ["h100", "h200"]}
    ]
    (kueue,) = (each for each in eks.of("kubernetes:helm.sh/v3:Release") if each.name == "kueue")
    config = yaml.safe_load(kueue.inputs["values"]["managerConfig"]["controllerManagerConfigYaml"])
    assert config["resources"]["excludeResourcePrefixes"] == ["vpc.amazonaws.com/efa", "hugepages-"]


def test_a_cluster_without_efa_gets_no_plugin_for_it() -> None:
    assert not platform("eks-dev").of("kubernetes:apps/v1:DaemonSet")


def rules(program: Program) -> Iterator[dict[str, Any]]:
    for kind, name in (
        ("ClusterRole", "muster-cluster-autoscaler-clusterrole"),
        ("Role", "cluster-autoscaler-role"),
    ):
        yield from program.one(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}", name).inputs["rules"]


def test_the_autoscaler_reads_requests_writes_their_status_and_has_no_wildcard(eks: Program) -> None:
    found = list(rules(eks))
    for rule in found:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "secrets" not in rule["resources"]
    verbs = {resource: rule["verbs"] for rule in found for resource in rule["resources"]}
    assert verbs["provisioningrequests"] == ["get", "list", "watch"]
    assert verbs["provisioningrequests/status"] == ["update", "patch"]
    assert set(verbs["podtemplates"]) == {"get", "list", "watch"}


def with_members(name: str, members: tuple[str, ...]) -> Program:
    """The stack, with these members in every team."""
    stack = shipped.shipped(name)
    departments = tuple(joined(each, members) for each in stack.departments)
    return shipped.platform(replace(stack, departments=departments))


def joined(department: Department, members: tuple[str, ...]) -> Department:
    teams = (replace(team, access=replace(team.access, members=members)) for team in department.teams)
    below = (joined(each, members) for each in department.departments)
    return replace(department, teams=tuple(teams), departments=tuple(below))


def test_members_of_teams_may_reach_the_api_of_their_cluster() -> None:
    principal = "arn:aws:iam::111122223333:role/somebody-new"
    entries = with_members("eks-prod", (principal,)).of("aws:eks/accessEntry:AccessEntry")
    (entry,) = [each for each in entries if each.inputs["principalArn"] == principal]
    assert all(group.startswith("muster:") for group in entry.inputs["kubernetesGroups"])
    control = with_members("gke-prod", ("ml@example.com",)).of("gcp:container/cluster:Cluster")[0]
    assert control.inputs["authenticatorGroupsConfig"] == {"securityGroup": "gke-security-groups@example.com"}


def test_a_principal_that_the_cluster_names_already_gets_one_entry_with_its_teams_groups() -> None:
    listed = shipped.shipped("eks-prod").cluster
    assert isinstance(listed, EksCluster)
    principal = next(iter(listed.access.values())).principal
    entries = with_members("eks-prod", (principal,)).of("aws:eks/accessEntry:AccessEntry")
    (entry,) = [each for each in entries if each.inputs["principalArn"] == principal]
    assert any(group.startswith("muster:") for group in entry.inputs["kubernetesGroups"])


def provisioned(by: NodeProvisioner) -> Program:
    """A small stack whose nodes something in the cluster launches."""
    found = shipped.platform(replace(load(OWN / f"eks-{by}.yaml"), images=IMAGE))
    urns = [each.urn for each in found.resources]
    assert sorted(set(urns)) == sorted(urns)
    return found


def test_karpenter_comes_after_its_kinds_and_its_nodes_outlive_the_teams() -> None:
    found = provisioned(NodeProvisioner.KARPENTER)
    crds, nodes = found.one(BUNDLE, "crds"), found.one(BUNDLE, "karpenter-nodes")
    release = found.one(RELEASE, "karpenter")
    assert {"ec2nodeclasses", "nodeclaims", "nodepools"} < crds.inputs["manifests"].keys()
    assert found.comes_after(release, crds)
    assert found.comes_after(nodes, release)
    assert found.comes_after(found.one(BUNDLE, "team-a"), nodes)
    assert release.inputs["skipCrds"] is True
    values = release.inputs["values"]
    assert values["settings"] == {"clusterName": "every", "interruptionQueue": QUEUE}
    assert values["nodeSelector"]["muster.dev/pool"] == "system"
    assert not found.of("muster:index:ClusterAutoscaler")
    assert found.of("kubernetes:apps/v1:DaemonSet")
    objects = json.loads(nodes.inputs["manifests"]["nodes"])
    assert {"NodePool/h100", "EC2NodeClass/h100", "NodePool/cpu"} <= objects.keys()
    groups = [each["id"] for each in objects["EC2NodeClass/h100"]["spec"]["securityGroupSelectorTerms"]]
    assert groups == ["sg-cluster", "every-efa-id"]


def test_auto_mode_makes_nodes_before_anything_is_installed() -> None:
    found = provisioned(NodeProvisioner.AUTO_MODE)
    crds, nodes = found.one(BUNDLE, "crds"), found.one(BUNDLE, "karpenter-nodes")
    assert found.comes_after(crds, nodes)
    assert "nodepools" not in crds.inputs["manifests"]
    assert {each.name for each in found.of(RELEASE)} == {"kueue", "kuberay"}
    assert not found.of("kubernetes:apps/v1:DaemonSet")
    objects = json.loads(nodes.inputs["manifests"]["nodes"])
    assert {"ConfigMap/amazon-vpc-cni", "NodePool/system", "NodeClass/h100"} <= objects.keys()
