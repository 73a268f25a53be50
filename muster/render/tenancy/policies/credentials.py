"""Credentials of a team's accounts."""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.policy import (
    ADMINISTRATOR,
    EVERYWHERE,
    NODES,
    SYSTEM,
    Kinds,
    Policy,
    Rule,
)

# Credentials of a team's accounts: short-lived, and of the account of its pipelines alone.
# A Secret of type service-account-token holds a token of any account of the namespace that never expires.
# With one, a tenant acts as an account that a controller made, such as that of a Ray cluster's autoscaler.
# What such an account may do is in scalers.py.

_TYPE: Final = "kubernetes.io/service-account-token"
_NAMED: Final = "{of}.metadata.?annotations[?'kubernetes.io/service-account.name']"
_INSTEAD: Final = (
    f"A pipeline acts as {names.MEMBER_ACCOUNT}: the platform team gives it a token that expires, by "
    f"kubectl create token {names.MEMBER_ACCOUNT}"
)


def accounts() -> Policy:
    """A user who may write Secrets of the whole cluster writes them for tenants too, so only the system and
    administrators are exempt.
    """
    return Policy(
        name="muster-accounts",
        purpose=(
            "A token of an account that never expires would let a tenant act as an account that a "
            "controller made."
        ),
        kinds=(
            Kinds(group="", resources=("secrets",)),
            Kinds(group="", resources=("serviceaccounts/token",), operations=("CREATE",)),
        ),
        unless=(("the-system", SYSTEM), ("an-administrator", ADMINISTRATOR)),
        rules=(_secrets(), _requests()),
    )


def _secrets() -> Rule:
    same = f"{_NAMED.format(of='object')} == {_NAMED.format(of='oldObject')}"
    return Rule(
        holds=f"request.resource.resource != 'secrets' || object.?type.orValue('') != '{_TYPE}' || "
        f"(request.operation == 'UPDATE' && {same})",
        message=f"'a Secret of type {_TYPE} holds a token that never expires; use another type. {_INSTEAD}'",
    )


def _requests() -> Rule:
    return Rule(
        holds=f"request.resource.resource != 'serviceaccounts' || request.name == '{names.MEMBER_ACCOUNT}' "
        f"|| {NODES} || {EVERYWHERE}",
        message=f"'account ' + request.name + ' is for pods and controllers only. {_INSTEAD}'",
    )
