"""A Google project's accounts, grants, keys, image repositories and enabled APIs.

Which change replaces is as in github.com/GoogleCloudPlatform/magic-modules:
mmv1/products/artifactregistry/Repository.yaml at 002e725a (`immutable`), and, of accounts,
mmv1/third_party/terraform/services/resourcemanager/resource_google_service_account.go at 0a274d33. A grant
is its three inputs: every change is another grant.
"""

from typing import Final

from tests.clouds.standin.table import Own, Table, same

ACCOUNT_TYPE: Final = "gcp:serviceaccount/account:Account"
KEY_TYPE: Final = "gcp:kms/cryptoKey:CryptoKey"
REPOSITORY_TYPE: Final = "gcp:artifactregistry/repository:Repository"

_PROJECT: Final = Own("the path's project")
# Binding has role and members; a member resource is one of them.
_ROLE, _MEMBER = "cloudresourcemanager.v1:Binding/role", "cloudresourcemanager.v1:Binding/members"

ACCOUNT: Final = Table(
    token=ACCOUNT_TYPE,
    sdk="pulumi_gcp.serviceaccount:AccountArgs",
    api="iam.v1:ServiceAccount",
    id="projects/{project}/serviceAccounts/{email}",
    unique=("project", "accountId"),
    replaces={"accountId": "iam.v1:CreateServiceAccountRequest/accountId", "project": _PROJECT},
    updates={"displayName": "displayName", "description": "description", "disabled": "disabled"},
    outputs={
        "email": "{email}",
        "member": "serviceAccount:{email}",
        "name": "projects/{project}/serviceAccounts/{email}",
        "uniqueId": "100000000000000000000",
    },
)

PROJECT_GRANT: Final = Table(
    token="gcp:projects/iAMMember:IAMMember",
    sdk="pulumi_gcp.projects:IAMMemberArgs",
    api="cloudresourcemanager.v1:Binding",
    id="{project}/{role}/{member}",
    replaces={"project": _PROJECT, "role": _ROLE, "member": _MEMBER},
    outputs={"etag": "BwX"},
)

ACCOUNT_GRANT: Final = Table(
    token="gcp:serviceaccount/iAMMember:IAMMember",
    sdk="pulumi_gcp.serviceaccount:IAMMemberArgs",
    api="iam.v1:Binding",
    id="{serviceAccountId}/{role}/{member}",
    replaces={"serviceAccountId": Own("the path's account"), "role": "role", "member": "members"},
    refers={"serviceAccountId": (ACCOUNT_TYPE,)},
    outputs={"etag": "BwX"},
)

BUCKET_GRANT: Final = Table(
    token="gcp:storage/bucketIAMMember:BucketIAMMember",
    sdk="pulumi_gcp.storage:BucketIAMMemberArgs",
    api="storage.v1:Policy",
    id="b/{bucket}/{role}/{member}",
    replaces={"bucket": Own("the path's bucket"), "role": "bindings.role", "member": "bindings.members"},
    outputs={"etag": "CAE="},
)

SERVICE: Final = Table(
    token="gcp:projects/service:Service",
    sdk="pulumi_gcp.projects:ServiceArgs",
    api="serviceusage.v1:GoogleApiServiceusageV1Service",
    id="{project}/{service}",
    replaces={"project": _PROJECT, "service": "name"},
    updates={
        "disableOnDestroy": Own("whether destroying it disables the API", kind="boolean"),
        "disableDependentServices": Own("whether dependent APIs go with it", kind="boolean"),
    },
)

_CLEANUP: Final = "artifactregistry.v1:CleanupPolicy"

REPOSITORY: Final = Table(
    token=REPOSITORY_TYPE,
    sdk="pulumi_gcp.artifactregistry:RepositoryArgs",
    api="artifactregistry.v1:Repository",
    id="projects/{project}/locations/{location}/repositories/{repositoryId}",
    unique=("project", "location", "repositoryId"),
    replaces={
        "repositoryId": Own("the path's repository"),
        "project": _PROJECT,
        "location": Own("the path's location"),
        **same("format kmsKeyName mode"),
    },
    updates={
        **same("description labels cleanupPolicyDryRun dockerConfig.immutableTags"),
        "cleanupPolicies.id": Own("the key of cleanupPolicies"),
        "cleanupPolicies.action": "artifactregistry.v1:CleanupPolicy/action",
        "cleanupPolicies.condition.tagState": "artifactregistry.v1:CleanupPolicy/condition.tagState",
        "cleanupPolicies.condition.olderThan": "artifactregistry.v1:CleanupPolicy/condition.olderThan",
        "cleanupPolicies.mostRecentVersions.keepCount": f"{_CLEANUP}/mostRecentVersions.keepCount",
        "vulnerabilityScanningConfig.enablementConfig": "vulnerabilityScanningConfig.enablementConfig",
    },
    outputs={"name": "{repositoryId}", "registryUri": "{location}-docker.pkg.dev/{project}/{repositoryId}"},
)

REPOSITORY_GRANT: Final = Table(
    token="gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
    sdk="pulumi_gcp.artifactregistry:RepositoryIamMemberArgs",
    api="artifactregistry.v1:Binding",
    id="projects/{project}/locations/{location}/repositories/{repository}/{role}/{member}",
    replaces={
        "project": _PROJECT,
        "location": Own("the path's location"),
        "repository": Own("the path's repository"),
        "role": "role",
        "member": "members",
    },
    refers={"repository": (REPOSITORY_TYPE,)},
    outputs={"etag": "BwX"},
)

KEY_RING: Final = Table(
    token="gcp:kms/keyRing:KeyRing",
    sdk="pulumi_gcp.kms:KeyRingArgs",
    api="cloudkms.v1:KeyRing",
    id="projects/{project}/locations/{location}/keyRings/{name}",
    unique=("project", "location", "name"),
    replaces={"name": Own("keyRingId"), "project": _PROJECT, "location": Own("the path's location")},
)

KEY: Final = Table(
    token=KEY_TYPE,
    sdk="pulumi_gcp.kms:CryptoKeyArgs",
    api="cloudkms.v1:CryptoKey",
    id="{keyRing}/cryptoKeys/{name}",
    unique=("keyRing", "name"),
    replaces={
        "name": Own("cryptoKeyId"),
        "keyRing": Own("the path's key ring"),
        **same("purpose destroyScheduledDuration"),
    },
    updates={"rotationPeriod": "rotationPeriod", "labels": "labels"},
    refers={"keyRing": ("gcp:kms/keyRing:KeyRing",)},
)

KEY_GRANT: Final = Table(
    token="gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
    sdk="pulumi_gcp.kms:CryptoKeyIAMMemberArgs",
    api="cloudkms.v1:Binding",
    id="{cryptoKeyId}/{role}/{member}",
    replaces={"cryptoKeyId": Own("the path's key"), "role": "role", "member": "members"},
    refers={"cryptoKeyId": (KEY_TYPE,)},
    outputs={"etag": "BwX"},
)

TABLES: Final = (
    *(ACCOUNT, PROJECT_GRANT, ACCOUNT_GRANT, BUCKET_GRANT, SERVICE, REPOSITORY, REPOSITORY_GRANT),
    *(KEY_RING, KEY, KEY_GRANT),
)
