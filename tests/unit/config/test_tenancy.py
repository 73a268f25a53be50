"""The tenancy settings of a stack are read, and their defaults are safe."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.config import ConfigError, load, parse
from muster.model.identities import AccessEntry, access_entries, google_security_group
from muster.model.stack import Stack
from muster.model.tenancy import (
    MOST_KIBIBYTES,
    MOST_OBJECTS,
    BucketRight,
    Capability,
    Egress,
    PodSecurity,
    TenancyMode,
)
from muster.render import queues, tenancy
from muster.render.tenancy.policies.work import sizes

LOCAL = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"


def stack(tenancy: object = None, **team: Any) -> Stack:
    values = yaml.safe_load(LOCAL.read_text())["config"]
    if tenancy is not None:
        values["muster:tenancy"] = tenancy
    values["muster:departments"]["research"]["teams"]["team-a"] |= team
    return parse(values, source="test")


def test_tenancy_is_on_by_default() -> None:
    found = stack().tenancy
    assert (found.mode, found.pod_security, found.egress) == (
        TenancyMode.ENFORCE,
        PodSecurity.BASELINE,
        Egress.INTERNET,
    )


def test_tenancy_may_be_the_mode_alone() -> None:
    assert stack("warn").tenancy.mode is TenancyMode.WARN


def _policy(found: Stack) -> dict[str, Any] | None:
    made = {each[0]["metadata"]["name"]: each for each in tenancy.policies(found)}
    return made.get("muster-pod-security", [None, None])[1]


def test_capabilities_take_the_api_server_s_plugin_away_and_put_a_policy_in_its_place() -> None:
    plain, found = stack(), stack({"capabilities": ["SYS_PTRACE", "IPC_LOCK"]})
    assert found.tenancy.capabilities == (Capability.IPC_LOCK, Capability.SYS_PTRACE)
    assert _enforced(plain) == {"baseline"}
    assert _enforced(found) == {"privileged"}
    # The labels change after the policies: without this one, nothing would hold the standard in between.
    assert (_policy(plain) or {})["spec"]["validationActions"] == ["Deny"]
    for mode in ("warn", "off"):
        binding = _policy(stack({"mode": mode, "capabilities": ["IPC_LOCK"]})) or {}
        assert binding["spec"]["validationActions"] == ["Deny"]
    assert _policy(stack("off")) is None


def _enforced(found: Stack) -> set[str]:
    return {
        each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for teams in queues.by_department(found).values()
        for objects in teams.values()
        for each in objects
        if each["kind"] == "Namespace"
    }


def test_pods_have_two_minutes_to_end_or_what_the_stack_gives_them() -> None:
    assert stack().tenancy.termination_grace == 120
    assert stack({"terminationGrace": "10m"}).tenancy.termination_grace == 600


def _budgets(found: Stack) -> dict[str, Any]:
    return {
        each["metadata"]["namespace"]: each["spec"]
        for teams in queues.by_department(found).values()
        for objects in teams.values()
        for each in objects
        if each["kind"] == "PodDisruptionBudget"
    }


def test_running_work_is_evicted_only_where_the_stack_wants_it() -> None:
    budgets = _budgets(stack())
    assert budgets.keys() == {"team-a", "team-b", "team-c"}
    # Of pods without a scale a budget takes a whole number, and an empty selector is all of a namespace.
    assert budgets["team-a"] == {"minAvailable": 1_000_000, "selector": {}}
    assert _budgets(stack({"drain": "evicts"})) == {}


def test_a_team_s_members_buckets_and_volumes_are_read() -> None:
    found = stack(
        members=["vision@example.com", "arn:aws:iam::123456789012:role/vision"],
        buckets={"datasets": "read", "checkpoints": "write"},
        pullSecrets=["registry"],
        volumes={"data": {"size": "1Ti", "storageClass": "standard-rwx"}},
    )
    (access,) = [team.access for _, team in found.teams() if team.name == "team-a"]
    assert access.buckets == {"checkpoints": BucketRight.WRITE, "datasets": BucketRight.READ}
    assert access.volumes[0].name == "data"
    assert access.volumes[0].shared
    entries = (AccessEntry("arn:aws:iam::123456789012:role/vision", ("muster:team-a",)),)
    assert access_entries(found) == entries
    assert google_security_group(found) == "gke-security-groups@example.com"


def _of_team_a(found: Stack, kind: str, name: str) -> dict[str, Any]:
    (made,) = [
        each
        for each in queues.objects(found)
        if each["kind"] == kind
        and each["metadata"]["name"] == name
        and each["metadata"].get("namespace", "team-a") == "team-a"
    ]
    return made


def test_members_are_groups_users_and_for_principals_of_aws_a_group_of_the_team() -> None:
    said = ["vision@example.com", "user:ann@example.com", "arn:aws:iam::123456789012:role/vision"]
    subjects = _of_team_a(stack(members=said), "RoleBinding", "members")["subjects"]
    assert [(each["kind"], each["name"]) for each in subjects] == [
        ("ServiceAccount", "member"),
        ("Group", "muster:team-a"),
        ("Group", "vision@example.com"),
        ("User", "ann@example.com"),
    ]


def test_a_team_has_the_priorities_that_it_names_or_all() -> None:
    for said, expected in (({}, "prod,dev"), ({"priorities": ["dev"]}, "dev")):
        annotations = _of_team_a(stack(**said), "Namespace", "team-a")["metadata"]["annotations"]
        assert annotations["muster.dev/priorities"] == expected


@pytest.mark.parametrize("storage_class", ["files", ""])
def test_a_volume_that_exists_is_bound_by_its_class_or_by_none(storage_class: str) -> None:
    volume = {"size": "1Ti", "volume": "datasets"} | ({"storageClass": "files"} if storage_class else {})
    spec = _of_team_a(stack(volumes={"data": volume}), "PersistentVolumeClaim", "data")["spec"]
    assert (spec["volumeName"], spec["storageClassName"]) == ("datasets", storage_class)


@pytest.mark.parametrize(
    ("tenancy", "team", "words"),
    [
        ({"egress": "internett"}, {}, ["muster:tenancy.egress", "internet"]),
        ({"podSecurity": "none"}, {}, ["muster:tenancy.podSecurity", "baseline"]),
        ({"capabilities": ["SYS_ADMIN"]}, {}, ["capabilities[0]", "lead out of the container", "IPC_LOCK"]),
        ({"namespaces": "existing", "capabilities": ["IPC_LOCK"]}, {}, ["muster:tenancy.capabilities"]),
        ({"objects": {"rayjobs": 1}}, {}, ["muster:tenancy.objects.rayjobs", "rayJobs"]),
        ({"sizes": {"configmaps": 1}}, {}, ["muster:tenancy.sizes.configmaps", "configMaps"]),
        ({"sizes": {"secrets": "1Mi"}}, {}, ["muster:tenancy.sizes.secrets"]),
        ({"mode": "enforce", "speed": 1}, {}, ["muster:tenancy.speed"]),
        (None, {"buckets": {"b": "own"}}, ["teams.team-a.buckets.b", "read, write"]),
        (None, {"volumes": {"v": {}}}, ["teams.team-a.volumes.v.size"]),
        (None, {"member": ["x"]}, ["teams.team-a.member", "members"]),
        (None, {"members": ["system:masters"]}, ["teams.team-a.members[0]", "system:"]),
        (None, {"defaultPriority": "highest"}, ["teams.team-a.defaultPriority", "prod"]),
        ({"defaultPriority": "highest"}, {}, ["muster:tenancy.defaultPriority", "prod"]),
        ({"reach": ["10.0.0.0/33"]}, {}, ["muster:tenancy.reach[0]", "10.20.0.0/16"]),
        ({"terminationGrace": "two"}, {}, ["muster:tenancy.terminationGrace", "30m"]),
        ({"terminationGrace": "29s"}, {}, ["muster:tenancy.terminationGrace", "30s or more"]),
    ],
)
def test_a_mistake_is_reported_with_its_path(tenancy: object, team: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        stack(tenancy, **team)
    for word in words:
        assert word in str(refused.value)


def test_sizes_are_kibibytes_and_bound_by_the_policy() -> None:
    found = stack({"sizes": {"configMaps": 512}})
    assert found.tenancy.sizes == {"configMaps": 512}
    (bound,) = [word for name, word in sizes(found).words if name == "most"]
    assert "'configmaps': 512" in bound
    assert f"'secrets': {MOST_KIBIBYTES['secrets']}" in bound


def test_what_one_team_may_store_fits_etcd_several_times() -> None:
    """etcd holds 2 GiB by default. At 1.5 MiB an object, the counts alone would allow more than 7 GiB."""
    assert MOST_KIBIBYTES.keys() <= MOST_OBJECTS.keys()
    most = sum(MOST_OBJECTS[kind] * kibibytes for kind, kibibytes in MOST_KIBIBYTES.items())
    assert most <= 0.5 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        ("gke-prod", {("169.254.169.254/32", 80), ("169.254.169.252/32", 988)}),
        ("eks-prod", {("169.254.170.23/32", 80), ("fd00:ec2::23/128", 80)}),
        # Whose metadata server may answer with the credentials of the node.
        ("local", set()),
    ],
)
def test_pods_reach_what_gives_them_credentials_of_their_own(
    name: str, servers: set[tuple[str, int]]
) -> None:
    found = load(LOCAL.with_name(f"Pulumi.{name}.yaml"))
    (*_, department), team = next(found.teams())
    (policy,) = (
        each
        for each in tenancy.team_objects(found, department, team, queues=("default",))
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "outgoing"
    )
    opened = {
        (to["ipBlock"]["cidr"], port["port"])
        for rule in policy["spec"]["egress"]
        for to in rule.get("to", ())
        for port in rule.get("ports", ({"port": "any"},))
        if "ipBlock" in to
    }
    local = {each for each in opened if each[0].startswith(("169.254.", "fd00:ec2:"))}
    assert local == servers
