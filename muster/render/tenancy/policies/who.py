"""The user of a request, in CEL: the cluster's own controllers, an administrator, or else a tenant."""

from collections.abc import Sequence
from typing import Final

from muster.model import names
from muster.model.work import RAY, WORK

# Kueue, KubeRay, KAI, Muster's controller, and those of the cluster have their accounts in these namespaces,
# in which tenants have no rights.
_SYSTEM: Final = (
    "kube-system",
    names.KUEUE_NAMESPACE,
    names.RAY_NAMESPACE,
    names.KAI_NAMESPACE,
    names.SYSTEM_NAMESPACE,
)


def quoted(words: Sequence[str]) -> str:
    """A CEL list of strings. They come from the stack, whose rules allow only plain names."""
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def accounts_of(*namespaces: str) -> str:
    """Whether the request comes from a ServiceAccount of one of these namespaces."""
    groups = quoted([f"system:serviceaccounts:{namespace}" for namespace in namespaces])
    return f"request.userInfo.groups.exists(group, group in {groups})"


def _is_controller(accounts: str) -> str:
    """Whether the request comes from a NAMESPACE's or from one NAMESPACE:ACCOUNT."""
    if ":" in accounts:
        return f"request.userInfo.username == 'system:serviceaccount:{accounts}'"
    return accounts_of(accounts)


_BROUGHT: Final = tuple(each for each in WORK if each.controller)
_ACCOUNTS: Final = (accounts_of(*_SYSTEM), *(_is_controller(each.controller) for each in _BROUGHT))
SYSTEM: Final = f"({' || '.join(_ACCOUNTS)})"
# The kubelets, of which each may write only what runs on its own node (the Node authorizer sees to that).
NODES: Final = "request.userInfo.groups.exists(group, group == 'system:nodes')"
KUBERAY: Final = accounts_of(names.RAY_NAMESPACE)
OURS: Final = accounts_of(names.SYSTEM_NAMESPACE)
MANAGER: Final = (
    f"request.userInfo.username == 'system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.MANAGER}'"
)
RECORDER: Final = (
    f"request.userInfo.username == 'system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.RECORDER}'"
)

# A user who may write every Namespace of the cluster could change what these policies read, so they do not
# apply to such users. A right on one namespace does not count. The program's own identity is one of them.
ADMINISTRATOR: Final = "authorizer.group('').resource('namespaces').check('update').allowed()"

# A user who may do the same in every namespace is not a tenant: a cloud's autoscaler, for example, answers
# ProvisioningRequests everywhere. A tenant's rights end with its namespace.
_EVERYWHERE: Final = (
    "authorizer.group(request.resource.group).resource(request.resource.resource)"
    ".subresource(request.?subResource.orValue('')).check({verb}).allowed()"
)
EVERYWHERE: Final = " || ".join(
    _EVERYWHERE.format(verb=verb)
    for verb in (
        "request.operation == 'CREATE' ? 'create' : request.operation == 'DELETE' ? 'delete' : 'update'",
        # An update is one by whichever verb.
        "request.operation == 'CREATE' ? 'create' : request.operation == 'DELETE' ? 'delete' : 'patch'",
    )
)

# What most policies leave alone. A tenant is none of them.
TRUSTED: Final = (
    ("the-system", SYSTEM),
    ("an-administrator", ADMINISTRATOR),
    ("a-user-of-the-whole-cluster", EVERYWHERE),
)
KUBELETS: Final = ("a-kubelet", NODES)


def owned(of: str, *, by: str, kinds: Sequence[str] = ()) -> str:
    """Whether an object of the API group `by` controls it, of one of these kinds where any are named."""
    named = f" && owner.kind in {quoted(kinds)}" if kinds else ""
    return (
        f"{of}.metadata.?ownerReferences.orValue([]).exists(owner, "
        f"owner.?controller.orValue(false) && owner.apiVersion.startsWith('{by}'){named})"
    )


def owned_by_ray(of: str, *, kinds: Sequence[str] = ()) -> str:
    """Whether KubeRay made it for a Ray object."""
    return owned(of, by="ray.io/", kinds=kinds)


# A RayCluster or submitter Job that KubeRay makes for an object that was checked, or a Job of a JobSet; its
# owner counts.
MADE_FOR_WORK: Final = " || ".join(
    f"({made})"
    for made in (
        f"{KUBERAY} && {owned_by_ray('object', kinds=tuple(each.kind for each in RAY))}",
        *(
            f"{_is_controller(each.controller)} && {owned('object', by=f'{each.group}/', kinds=(each.kind,))}"
            for each in _BROUGHT
        ),
    )
)
# KubeRay, which on a cluster that had one may have its account in another namespace.
BY_KUBERAY: Final = f"{KUBERAY} || (request.operation == 'CREATE' && {owned_by_ray('object')})"
