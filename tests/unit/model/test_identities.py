"""Cloud identities of teams: names that their clouds take, and words in a stack that come true."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.clusters import Cluster, ExistingCluster, GkeCluster
from muster.model.identities import amazon_role, google_address, google_project
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Access, BucketRight
from muster.model.violations import Violation
from muster.validation.identities import cloud_identity_rules
from tests.unit.model.model_stacks import CPU, EKS

GKE = GkeCluster(name="ml", project="acme", region="us-central1")
EXISTING = ExistingCluster(name="theirs", context="theirs")
ADDRESS = "vision@acme-data.iam.gserviceaccount.com"
ARN = "arn:aws:iam::123456789012:role/vision"

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z", fullmatch=True)


def team(access: Access) -> Team:
    return Team(name="vision", namespace="vision", access=access)


def broken(
    cluster: Cluster, *, identity: str | None = None, buckets: tuple[str, ...] = ()
) -> list[Violation]:
    rights: Mapping[str, BucketRight] = dict.fromkeys(buckets, BucketRight.READ)
    return broken_teams(cluster, team(Access(identity=identity, buckets=rights)))


def broken_teams(cluster: Cluster, *teams: Team) -> list[Violation]:
    research = Department(name="research", teams=teams)
    return cloud_identity_rules(Stack(cluster=cluster, pools=(CPU,), departments=(research,)))


@given(cluster=st.text("a-", min_size=1, max_size=100), name=NAMES)
def test_a_role_s_name_leaves_room_for_its_random_end(cluster: str, name: str) -> None:
    assert len(amazon_role(cluster, name)) + len("-1234567") <= 64


@given(cluster=NAMES, names=st.lists(NAMES, min_size=2, max_size=9, unique=True))
def test_no_two_teams_of_a_cluster_share_an_identity(cluster: str, names: list[str]) -> None:
    assert len({amazon_role(cluster, name) for name in names}) == len(names)


def test_the_account_of_a_project_of_a_domain_is_addressed_as_google_does() -> None:
    cluster = replace(GKE, project="example.com:acme")
    asking = team(Access(buckets={"datasets": BucketRight.READ}))
    assert (
        google_address(cluster, asking)
        == "muster-ml-vision-e426df32@acme.example.com.iam.gserviceaccount.com"
    )
    assert google_project(cluster, asking.access.identity) == "example.com:acme"


def test_a_given_account_is_looked_for_in_its_own_project() -> None:
    assert google_project(GKE, ADDRESS) == "acme-data"
    compute = "1234-compute@developer.gserviceaccount.com"
    assert google_project(GKE, compute) == "acme"


@pytest.mark.parametrize(
    ("cluster", "identity", "buckets"),
    [
        (GKE, ADDRESS, ()),
        (GKE, None, ("datasets", "data.acme.example", "my_data")),
        (EKS, ARN, ()),
        (EKS, None, ("datasets", "data.acme.example")),
        (EXISTING, None, ()),
    ],
)
def test_what_a_cloud_takes_breaks_no_rule(
    cluster: Cluster, identity: str | None, buckets: tuple[str, ...]
) -> None:
    assert broken(cluster, identity=identity, buckets=buckets) == []


@pytest.mark.parametrize(
    ("cluster", "identity", "form"),
    [
        (GKE, ARN, "iam.gserviceaccount.com"),
        (GKE, "vision@example.com", "iam.gserviceaccount.com"),
        (EKS, ADDRESS, "arn:aws:iam::"),
        (EKS, "arn:aws:iam::123456789012:user/vision", "arn:aws:iam::"),
    ],
)
def test_an_identity_of_another_kind_is_refused(cluster: Cluster, identity: str, form: str) -> None:
    (violation,) = broken(cluster, identity=identity)
    assert violation.path == "muster:departments.research.teams.vision.identity"
    assert form in violation.fix
    assert violation.level == "error"


@pytest.mark.parametrize("cluster", [GKE, EKS])
@pytest.mark.parametrize("bucket", ["*", "data*", "s3://datasets", "datasets/models", "Datasets", "x"])
def test_a_bucket_that_is_none_or_is_many_is_refused(cluster: Cluster, bucket: str) -> None:
    (violation,) = broken(cluster, buckets=(bucket,))
    assert violation.path == f"muster:departments.research.teams.vision.buckets.{bucket}"


@pytest.mark.parametrize(("cluster", "identity"), [(GKE, ADDRESS), (EKS, ARN)])
def test_rights_that_would_never_be_granted_are_refused(cluster: Cluster, identity: str) -> None:
    (violation,) = broken(cluster, identity=identity, buckets=("datasets",))
    assert violation.path.endswith("vision.buckets")
    assert "never be granted" in violation.message


@pytest.mark.parametrize(("identity", "buckets", "key"), [(ARN, (), "identity"), (None, ("b-1",), "buckets")])
def test_an_existing_cluster_gets_a_warning_that_nothing_is_made(
    identity: str | None, buckets: tuple[str, ...], key: str
) -> None:
    (violation,) = broken(EXISTING, identity=identity, buckets=buckets)
    assert (violation.path.rpartition(".")[2], violation.level) == (key, "warning")
    assert "ServiceAccount default of namespace vision" in violation.fix


def test_an_existing_cluster_gets_a_warning_of_an_account_whose_identity_is_not_bound() -> None:
    several = replace(
        team(Access(accounts={"trainer": ADDRESS, "viewer": None})), further_namespaces=("vision-ci",)
    )
    (violation,) = broken_teams(EXISTING, several)
    assert violation.path == "muster:departments.research.teams.vision.serviceAccounts.trainer"
    assert violation.level == "warning"
    assert "ServiceAccount trainer of namespace vision and vision-ci" in violation.fix


_READS: Mapping[str, BucketRight] = dict.fromkeys(("data",), BucketRight.READ)


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        (Access(accounts={"b": ADDRESS}), ("a-account-b", Access(identity=ADDRESS)), ""),
        (Access(buckets={"b-data": BucketRight.READ}), ("a-b", Access(buckets=_READS)), ".buckets.data"),
    ],
)
def test_two_teams_whose_resources_would_have_one_name_are_refused(
    one: Access, other: tuple[str, Access], key: str
) -> None:
    name, access = other
    both = Team(name="a", namespace="a", access=one), Team(name=name, namespace=name, access=access)
    (violation,) = broken_teams(GKE, *both)
    assert violation.path == f"muster:departments.research.teams.{name}{key}"
    assert "muster:departments.research.teams.a" in violation.message


def test_teams_whose_names_only_begin_alike_are_not_refused() -> None:
    ci = Team(name="a", namespace="a", further_namespaces=("ci",), access=Access(identity=ADDRESS))
    assert not broken_teams(GKE, ci, Team(name="a-ci", namespace="a-ci", access=Access(identity=ADDRESS)))
