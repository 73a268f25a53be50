"""The backend of a stack's state and secrets: a private, versioned bucket and an encryption key.

Responsible for their names and settings. A second run changes nothing. `pulumi login` and `pulumi stack
init` are left to the user; their command lines are returned.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from muster.cloud import clients
from muster.cloud.clients import AmazonError, Google, GoogleError, from_google
from muster.errors import ExitCode, MusterError
from muster.model.clusters import Cluster, EksCluster, GkeCluster

_RING: Final = "muster"
_ROTATION: Final = 90 * 24 * 3600
_THERE: Final = 409


class BackendError(MusterError):
    """The backend could not be made. The message names a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`url` for `pulumi login`, `secrets` for `--secrets-provider`."""

    url: str
    secrets: str

    def commands(self, stack: str) -> list[str]:
        init = f"pulumi stack init {stack} --secrets-provider='{self.secrets}'"
        return [f"pulumi login '{self.url}'", init]


def make(cluster: Cluster, *, google: Google | None = None) -> Backend:
    """The backend of all stacks of this project (GKE) or account and region (EKS), made where missing."""
    try:
        if isinstance(cluster, GkeCluster):
            return _google(cluster, google or Google())
        if isinstance(cluster, EksCluster):
            return _amazon(cluster)
    except GoogleError as error:
        message = f"{cluster.name}: Google Cloud answered: {error} ({error.status})."
        fix = 'grant the roles of the page "The first `up` on GKE" of the documentation.'
        raise BackendError(message, fix=fix, exit_code=ExitCode.OUTSIDE) from None
    except AmazonError as error:
        message = f"{cluster.name}: AWS answered: {error} ({error.code})."
        fix = 'attach the policy of the page "The first `up` on EKS" of the documentation.'
        raise BackendError(message, fix=fix, exit_code=ExitCode.OUTSIDE) from None
    raise BackendError(
        "Muster makes a backend only beside a cluster of its own, in the same cloud account.",
        fix="choose any backend, and run `pulumi login` with it.",
    )


def _google(cluster: GkeCluster, google: Google) -> Backend:
    bucket = f"{cluster.project}-muster-state"
    body = {
        "name": bucket,
        "location": cluster.region,
        "versioning": {"enabled": True},
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
    }
    buckets = google.service("storage", "v1").buckets()
    _create_if_missing(lambda: buckets.insert(project=cluster.project, body=body))
    keys = google.service("cloudkms", "v1").projects().locations().keyRings()
    place = f"projects/{cluster.project}/locations/{cluster.region}"
    _create_if_missing(lambda: keys.create(parent=place, keyRingId=_RING, body={}))
    ring = f"{place}/keyRings/{_RING}"
    _create_if_missing(
        lambda: keys.cryptoKeys().create(parent=ring, cryptoKeyId="pulumi", body=_google_key())
    )
    return Backend(url=f"gs://{bucket}", secrets=f"gcpkms://{ring}/cryptoKeys/pulumi")


def _google_key() -> dict[str, Any]:
    from datetime import UTC, datetime, timedelta

    first = datetime.now(UTC) + timedelta(seconds=_ROTATION)
    return {
        "purpose": "ENCRYPT_DECRYPT",
        "rotationPeriod": f"{_ROTATION}s",
        "nextRotationTime": first.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _create_if_missing(call: Any) -> None:
    """Create it unless it exists. The next use fails if another project owns a bucket of that name."""
    try:
        from_google(call)
    except GoogleError as error:
        if error.status != _THERE:
            raise


def _amazon(cluster: EksCluster) -> Backend:
    account = clients.from_amazon(clients.client("sts", cluster.region).get_caller_identity)["Account"]
    alias = "alias/muster-pulumi"
    key = _amazon_key(cluster.region, alias)
    bucket = f"muster-state-{account}-{cluster.region}"
    _amazon_bucket(bucket, cluster.region, key)
    return Backend(
        url=f"s3://{bucket}?region={cluster.region}", secrets=f"awskms://{alias}?region={cluster.region}"
    )


def _amazon_key(region: str, alias: str) -> str:
    """The id of the alias' key, or of a new key with rotation."""
    kms = clients.client("kms", region)
    try:
        return str(clients.from_amazon(lambda: kms.describe_key(KeyId=alias))["KeyMetadata"]["KeyId"])
    except AmazonError as error:
        if error.code != "NotFoundException":
            raise
    made = clients.from_amazon(lambda: kms.create_key(Description="Pulumi state and secrets of Muster"))
    key = str(made["KeyMetadata"]["KeyId"])
    clients.from_amazon(lambda: kms.enable_key_rotation(KeyId=key))
    clients.from_amazon(lambda: kms.create_alias(AliasName=alias, TargetKeyId=key))
    return key


def _amazon_bucket(name: str, region: str, key: str) -> None:
    """Write every setting on each run, which reverts changes made by hand."""
    s3 = clients.client("s3", region)
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        clients.from_amazon(
            lambda: s3.create_bucket(Bucket=name, ObjectOwnership="BucketOwnerEnforced", **place)
        )
    except AmazonError as error:
        if error.code != "BucketAlreadyOwnedByYou":
            raise
    closed = dict.fromkeys(
        ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
    )
    encryption = {
        "Rules": [
            {
                "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key},
                "BucketKeyEnabled": True,
            }
        ]
    }
    clients.from_amazon(
        lambda: s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=closed)
    )
    clients.from_amazon(
        lambda: s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=encryption)
    )
    versions = {"Status": "Enabled"}
    clients.from_amazon(lambda: s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versions))
    policy = json.dumps({"Version": "2012-10-17", "Statement": [_only_tls(name)]})
    clients.from_amazon(lambda: s3.put_bucket_policy(Bucket=name, Policy=policy))


def _only_tls(bucket: str) -> dict[str, Any]:
    return {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
