"""What a team's pods are in the cloud: made with the rights that the stack names, bound to them alone, and
there before they are.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pulumi
import pytest

from muster.components.clusters.cluster import cluster_of
from muster.components.context import Identities, IdentitiesArgs
from muster.config import load
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Access, BucketRight
from tests.mocks import shipped
from tests.mocks.recorder import Program, Registered, run

ROOT = Path(__file__).parents[2]
BUCKETS = {"datasets": BucketRight.READ, "checkpoints": BucketRight.WRITE}
ADDRESS = "vision@acme-data.iam.gserviceaccount.com"
ARN = "arn:aws:iam::123456789012:role/vision"
TRAINER = "trainer@acme-ml.iam.gserviceaccount.com"
TRAINER_ROLE = "arn:aws:iam::123456789012:role/trainer"

BUNDLE = "muster:k8s:Bundle"
ACCOUNT = "gcp:serviceaccount/account:Account"
BINDING = "gcp:serviceaccount/iAMMember:IAMMember"
BUCKET_GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"


def stack(name: str, given: Mapping[str, Access]) -> Stack:
    """The shipped stack, with these teams given what they ask for."""
    found = shipped.shipped(name)
    return replace(found, departments=tuple(_given(each, given) for each in found.departments))


def _given(department: Department, given: Mapping[str, Access]) -> Department:
    teams = (replace(team, access=given.get(team.name, team.access)) for team in department.teams)
    below = (_given(each, given) for each in department.departments)
    return replace(department, teams=tuple(teams), departments=tuple(below))


@pytest.fixture(scope="module")
def gke() -> Program:
    given = {
        "vision": Access(buckets=BUCKETS),
        "speech": Access(identity=ADDRESS, accounts={"trainer": TRAINER}),
    }
    return shipped.platform(stack("gke-prod", given))


@pytest.fixture(scope="module")
def eks() -> Program:
    given = {
        "vision": Access(buckets=BUCKETS),
        "speech": Access(identity=ARN, accounts={"trainer": TRAINER_ROLE}),
    }
    return shipped.platform(stack("eks-prod", given))


def annotated(program: Program, team: str) -> str | None:
    """The Google service account that the team's pods say they are."""
    (text,) = program.one(BUNDLE, team).inputs["manifests"].values()
    annotations = json.loads(text)["ServiceAccount/default"]["metadata"].get("annotations", {})
    found: str | None = annotations.get("iam.gke.io/gcp-service-account")
    return found


def of_teams(program: Program, kind: str) -> list[Registered]:
    return [each for each in program.of(kind) if "-team-" in each.name]


def test_the_google_account_that_is_made_is_the_one_that_the_pods_name(gke: Program) -> None:
    (account,) = of_teams(gke, ACCOUNT)
    made = f"{account.inputs['accountId']}@my-project.iam.gserviceaccount.com"
    assert annotated(gke, "vision") == made
    (binding,) = [each for each in gke.of(BINDING) if made in each.inputs["serviceAccountId"]]
    assert binding.inputs == {
        "serviceAccountId": f"projects/my-project/serviceAccounts/{made}",
        "role": "roles/iam.workloadIdentityUser",
        "member": "serviceAccount:my-project.svc.id.goog[vision/default]",
    }
    assert gke.comes_after(binding, account)


def test_a_google_account_may_do_with_each_bucket_what_the_stack_says(gke: Program) -> None:
    grants = {each.inputs["bucket"]: each for each in gke.of(BUCKET_GRANT)}
    assert {bucket: each.inputs["role"] for bucket, each in grants.items()} == {
        "checkpoints": "roles/storage.objectUser",
        "datasets": "roles/storage.objectViewer",
    }
    for grant in grants.values():
        assert grant.inputs["member"] == f"serviceAccount:{annotated(gke, 'vision')}"
        assert gke.comes_after(grant, of_teams(gke, ACCOUNT)[0])


def test_a_given_google_account_is_bound_in_its_own_project_and_gets_no_rights(gke: Program) -> None:
    assert annotated(gke, "speech") == ADDRESS
    binding = gke.one(BINDING, "ml-prod-team-speech").inputs
    assert binding["serviceAccountId"] == f"projects/acme-data/serviceAccounts/{ADDRESS}"
    assert binding["member"] == "serviceAccount:my-project.svc.id.goog[speech/default]"
    assert not [each for each in gke.of(BUCKET_GRANT) if ADDRESS in each.inputs["member"]]


def test_a_role_is_taken_by_the_pods_of_its_team_alone(eks: Program) -> None:
    role = eks.one(ROLE, "ml-prod-team-vision")
    (trusted,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    association = eks.one(ASSOCIATION, "ml-prod-team-vision")
    assert {key: association.inputs[key] for key in ("clusterName", "namespace", "serviceAccount")} == {
        "clusterName": "ml-prod",
        "namespace": "vision",
        "serviceAccount": "default",
    }
    assert eks.comes_after(association, eks.one(ROLE_POLICY, "ml-prod-team-vision"))


def test_a_role_reaches_the_named_buckets_and_writes_where_it_may(eks: Program) -> None:
    policy = json.loads(eks.one(ROLE_POLICY, "ml-prod-team-vision").inputs["policy"])
    may: dict[str, set[str]] = {}
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            may.setdefault(resource.removeprefix("arn:aws:s3:::"), set()).update(statement["Action"])
    assert may.keys() == {"datasets", "datasets/*", "checkpoints", "checkpoints/*"}
    assert may["datasets/*"] == {"s3:GetObject"}
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} < may["checkpoints/*"]
    assert may["datasets"] == {"s3:ListBucket", "s3:GetBucketLocation"}
    assert not any("*" in action for actions in may.values() for action in actions)


def test_a_given_role_is_associated_and_not_made(eks: Program) -> None:
    assert [each.name for each in of_teams(eks, ROLE)] == ["ml-prod-team-vision"]
    assert [each.name for each in of_teams(eks, ROLE_POLICY)] == ["ml-prod-team-vision"]
    assert eks.one(ASSOCIATION, "ml-prod-team-speech").inputs["roleArn"] == ARN


def test_an_account_of_a_team_acts_as_its_own_identity(gke: Program, eks: Program) -> None:
    name = "ml-prod-team-speech-account-trainer"
    binding = gke.one(BINDING, name).inputs
    assert binding["serviceAccountId"] == f"projects/acme-ml/serviceAccounts/{TRAINER}"
    assert binding["member"] == "serviceAccount:my-project.svc.id.goog[speech/trainer]"
    association = eks.one(ASSOCIATION, name).inputs
    assert (association["serviceAccount"], association["roleArn"]) == ("trainer", TRAINER_ROLE)


def identities(described: Stack) -> Program:
    opts = pulumi.ResourceOptions()
    return run(
        lambda: Identities(
            "identities", IdentitiesArgs(stack=described, cloud=cluster_of(described, opts=opts).cloud)
        )
    )


def bound(*teams: Team, cloud: str) -> list[Registered]:
    described = load(ROOT / "stacks" / f"Pulumi.{cloud}-prod.yaml")
    described = replace(described, departments=(Department(name="research", teams=teams),))
    program = identities(described)
    return [*of_teams(program, BINDING), *of_teams(program, ASSOCIATION)]


def bindings(*teams: Team, cloud: str) -> dict[str, str]:
    """Name -> namespace and account of every binding. The engine refuses two resources of one name."""
    found: dict[str, str] = {}
    for each in bound(*teams, cloud=cloud):
        assert each.name not in found
        given = each.inputs
        found[each.name] = (
            f"{given['namespace']}/{given['serviceAccount']}"
            if cloud == "eks"
            else given["member"].partition("[")[2].rstrip("]")
        )
    return found


def named(name: str, *namespaces: str, cloud: str) -> Team:
    identity, own = (ADDRESS, TRAINER) if cloud == "gke" else (ARN, TRAINER_ROLE)
    first, *further = namespaces
    return Team(
        name=name,
        namespace=first,
        further_namespaces=tuple(further),
        access=Access(identity=identity, accounts={"trainer": own}),
    )


@pytest.mark.parametrize("cloud", ["gke", "eks"])
def test_a_team_with_two_namespaces_and_a_team_of_both_names_are_bound_apart(cloud: str) -> None:
    both = named("a", "a", "ci", cloud=cloud), named("a-ci", "a-ci", cloud=cloud)
    found = bindings(*both, cloud=cloud)
    assert found["ml-prod-team-a"] == "a/default"
    assert found["ml-prod-team-a-ci"] == "a-ci/default"
    assert sorted(found.values()) == sorted(
        f"{namespace}/{account}" for namespace in ("a", "ci", "a-ci") for account in ("default", "trainer")
    )


@cache
def _bindings_in(*namespaces: str, cloud: str) -> dict[str, str]:
    return bindings(named("a", *namespaces, cloud=cloud), cloud=cloud)


@pytest.mark.parametrize("cloud", ["gke", "eks"])
@pytest.mark.parametrize("before", [("a",), ("b",), ("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("after", [("b",), ("b", "a"), ("c", "a", "b")])
def test_a_binding_keeps_its_name_in_every_other_list_of_namespaces(
    before: tuple[str, ...], after: tuple[str, ...], cloud: str
) -> None:
    """The engine creates before it deletes: the binding of a namespace under two names would be lost."""
    old, new = (_bindings_in(*each, cloud=cloud) for each in (before, after))
    for name, account in old.items():
        assert account not in new.values() or new[name] == account


@pytest.mark.parametrize("cloud", ["gke", "eks"])
def test_the_binding_of_a_namespace_of_another_name_is_known_by_its_former_name(cloud: str) -> None:
    only = bound(named("a", "work", cloud=cloud), cloud=cloud)
    assert {each.name: each.formerly for each in only} == {
        "ml-prod-team-a.work": ("ml-prod-team-a",),
        "ml-prod-team-a.work.account.trainer": ("ml-prod-team-a-account-trainer",),
    }
    assert not any(each.formerly for each in bound(named("a", "work", "a", cloud=cloud), cloud=cloud))


def test_an_identity_is_there_before_its_team_and_is_made_in_the_cluster_s_own_cloud(
    gke: Program, eks: Program
) -> None:
    for program, kinds, provider in (
        (gke, (ACCOUNT, BINDING, BUCKET_GRANT), "ml-prod-gcp"),
        (eks, (ROLE, ROLE_POLICY, ASSOCIATION), "ml-prod-aws"),
    ):
        for made in (each for kind in kinds for each in of_teams(program, kind)):
            team = "vision" if "team-vision" in made.name else "speech"
            assert program.comes_after(program.one(BUNDLE, team), made)
            assert f"::{provider}::" in made.provider


def test_nobody_waits_for_an_identity_that_is_not_his(gke: Program) -> None:
    made = of_teams(gke, ACCOUNT)[0]
    assert not gke.comes_after(gke.one(BUNDLE, "ranking"), made)


@pytest.mark.parametrize("name", ["gke-dev", "eks-dev"])
def test_nothing_is_made_that_nobody_asks_for(name: str) -> None:
    program = identities(load(ROOT / "stacks" / f"Pulumi.{name}.yaml"))
    assert program.one("muster:index:Identities", "identities").name == "identities"
    assert not [each.name for each in program.resources if "-team-" in each.name]


def test_nothing_is_made_in_an_existing_cluster_whatever_is_asked_for() -> None:
    described = stack("local", {"team-a": Access(buckets=BUCKETS)})
    program = run(lambda: Identities("identities", IdentitiesArgs(stack=described, cloud=None)))
    assert [each.name for each in program.resources] == ["identities"]
