"""One command makes the place of state and secrets, safe from the first day; a second changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.stub import ANY, Stubber

from muster.cloud import clients
from muster.cloud.backend import Backend, BackendError, make
from muster.cloud.clients import Google
from muster.model.clusters import EksCluster, ExistingCluster, GkeCluster
from tests.unit.cloud.google_world import Routes, cloud

GKE = GkeCluster(name="ml", project="p", region="us-central1")
EKS = EksCluster(name="ml", region="eu-west-1", zones=("eu-west-1a", "eu-west-1b"))
RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
RING = "projects/p/locations/us-central1/keyRings"
_BUCKET = "muster-state-123456789012-eu-west-1"


def test_on_google_the_bucket_is_versioned_and_private() -> None:
    routes: Routes = {
        "POST /b": (200, {}),
        f"POST /v1/{RING}": (200, {}),
        f"POST /v1/{RING}/muster/cryptoKeys": (200, {}),
    }
    with cloud(routes) as (made, google):
        backend = make(GKE, google=google)
    assert backend == Backend(url="gs://p-muster-state", secrets=f"gcpkms://{RING}/muster/cryptoKeys/pulumi")
    shown = (RUNBOOKS / "first-up-gke.md").read_text(encoding="utf-8")
    for command in backend.commands("prod"):
        assert command.replace("//p-", "//PROJECT-").replace("/p/", "/PROJECT/") in shown
    bucket, _, key = (body for _, body in made.asked)
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert key["purpose"] == "ENCRYPT_DECRYPT"
    assert key["rotationPeriod"] == "7776000s"


def test_on_google_what_is_there_stays() -> None:
    there = (409, {"error": {"code": 409, "message": "exists"}})
    routes = {"POST /b": there, f"POST /v1/{RING}": there, f"POST /v1/{RING}/muster/cryptoKeys": there}
    with cloud(routes) as (_, google):
        assert make(GKE, google=google).url == "gs://p-muster-state"


def test_on_google_a_refusal_names_the_page_with_the_roles() -> None:
    refused = (403, {"error": {"code": 403, "message": "no storage.buckets.create"}})
    with (
        cloud({"POST /b": refused}) as (_, google),
        pytest.raises(BackendError, match=r"no storage\.buckets\.create .*The first `up` on GKE"),
    ):
        make(GKE, google=google)


def test_an_unreachable_cloud_is_an_error_after_a_timeout() -> None:
    with cloud({}) as (_, google):
        pass
    dead = Google(endpoint=google.endpoint, credentials=google.credentials)
    with pytest.raises(BackendError, match="no answer"):
        make(GKE, google=dead)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Stubber]]:
    """boto3's own clients; each call is checked against AWS's definition of it, and none goes out."""
    stubbed = {
        name: boto3.client(name, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
        for name in ("sts", "kms", "s3")
    }
    stubs = {name: Stubber(client) for name, client in stubbed.items()}
    monkeypatch.setattr(clients, "client", lambda name, _: stubbed[name])
    stubs["sts"].add_response("get_caller_identity", {"Account": "123456789012"})
    for stub in stubs.values():
        stub.activate()
    yield stubs
    for stub in stubs.values():
        stub.assert_no_pending_responses()


def _bucket_settings(s3: Stubber) -> None:
    named = {"Bucket": _BUCKET}
    s3.add_response("put_public_access_block", {}, {**named, "PublicAccessBlockConfiguration": ANY})
    s3.add_response("put_bucket_encryption", {}, {**named, "ServerSideEncryptionConfiguration": ANY})
    s3.add_response("put_bucket_versioning", {}, {**named, "VersioningConfiguration": {"Status": "Enabled"}})
    s3.add_response("put_bucket_policy", {}, {**named, "Policy": ANY})


def test_on_aws_a_key_that_rotates_and_a_closed_bucket(aws: dict[str, Stubber]) -> None:
    kms = aws["kms"]
    kms.add_client_error("describe_key", "NotFoundException")
    kms.add_response("create_key", {"KeyMetadata": {"KeyId": "k"}}, {"Description": ANY})
    kms.add_response("enable_key_rotation", {}, {"KeyId": "k"})
    kms.add_response("create_alias", {}, {"AliasName": "alias/muster-pulumi", "TargetKeyId": "k"})
    place = {"LocationConstraint": "eu-west-1"}
    asked = {"Bucket": _BUCKET, "ObjectOwnership": "BucketOwnerEnforced", "CreateBucketConfiguration": place}
    aws["s3"].add_response("create_bucket", {}, asked)
    _bucket_settings(aws["s3"])
    backend = make(EKS)
    assert backend.url == f"s3://{_BUCKET}?region=eu-west-1"
    assert backend.secrets == "awskms://alias/muster-pulumi?region=eu-west-1"
    shown = (RUNBOOKS / "first-up-eks.md").read_text(encoding="utf-8")
    for command in backend.commands("prod"):
        assert command.replace("123456789012", "ACCOUNT").replace("eu-west-1", "us-east-1") in shown


def test_on_aws_a_second_run_puts_the_settings_back_and_makes_nothing(aws: dict[str, Stubber]) -> None:
    aws["kms"].add_response("describe_key", {"KeyMetadata": {"KeyId": "k"}}, {"KeyId": "alias/muster-pulumi"})
    aws["s3"].add_client_error("create_bucket", "BucketAlreadyOwnedByYou")
    _bucket_settings(aws["s3"])
    make(EKS)


def test_a_bucket_of_another_account_is_refused(aws: dict[str, Stubber]) -> None:
    aws["kms"].add_response("describe_key", {"KeyMetadata": {"KeyId": "k"}}, {"KeyId": "alias/muster-pulumi"})
    aws["s3"].add_client_error("create_bucket", "BucketAlreadyExists", "not yours")
    with pytest.raises(BackendError, match="BucketAlreadyExists"):
        make(EKS)


def test_an_existing_cluster_has_no_backend() -> None:
    with pytest.raises(BackendError, match="choose any backend"):
        make(ExistingCluster(name="x"))


def test_the_commands_are_a_persons_to_run() -> None:
    commands = Backend(url="gs://b", secrets="gcpkms://k").commands("gke-prod")
    assert json.dumps(commands).count("gke-prod") == 1
    assert commands[0] == "pulumi login 'gs://b'"
