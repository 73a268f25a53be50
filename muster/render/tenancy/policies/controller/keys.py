"""What our accounts may create in their own namespace: one Secret and one Lease, each by its name.

RBAC cannot limit a create by name. A Secret of type service-account-token under the name that the webhooks
may read would hold the token of any account of the namespace, such as the manager's.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule, same_metadata

_TYPE: Final = "Opaque"


def keys() -> Policy:
    return fence(
        "muster-controller-keys",
        purpose="The controller writes its own Secret and Lease.",
        kinds=(
            Kinds(group="", resources=("secrets",)),
            Kinds(group="coordination.k8s.io", resources=("leases",), operations=("CREATE",)),
        ),
        rules=(_secret(), _lease()),
    )


def _secret() -> Rule:
    same = same_metadata("object", "oldObject")
    return Rule(
        holds="request.resource.resource != 'secrets' || "
        f"(object.metadata.name == '{names.CERTIFICATES}' && object.?type.orValue('') == '{_TYPE}' && "
        f"(request.operation == 'CREATE' || ({same})))",
        message=f"'this account writes Secret {names.CERTIFICATES} of type {_TYPE}, its data alone'",
    )


def _lease() -> Rule:
    return Rule(
        holds=f"request.resource.resource != 'leases' || object.metadata.name == '{names.PROGRAM}'",
        message=f"'this account creates Lease {names.PROGRAM} and no other'",
    )
