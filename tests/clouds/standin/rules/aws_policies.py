"""What IAM says of policy documents, and whether the actions in them exist."""

import fnmatch
import json
from collections.abc import Iterator
from typing import Final

from tests.clouds.standin import amazon
from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone
from tests.clouds.standin.rules.trust import statements
from tests.clouds.standin.tables.aws_account import POLICY_TYPE, ROLE_POLICY
from tests.clouds.standin.tables.eks import ROLE_TYPE
from tests.clouds.standin.values import Inputs, get

# Services whose IAM actions are their operations' names. sts:TagSession and eks-auth are permissions without
# an operation of their own in these models.
_SERVICES: Final = ("autoscaling", "ec2", "ecr", "eks", "iam", "kms", "logs", "pricing", "sqs", "ssm", "sts")
_WITHOUT_OPERATION: Final = frozenset({"iam:PassRole", "sts:TagSession", "sts:SetSourceIdentity"})
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
_LONGEST: Final = 6144


def document(inputs: Inputs, name: str) -> Iterator[Refusal]:
    """What every policy document keeps to."""
    text = get(inputs, name)
    if not isinstance(text, str):
        return
    try:
        found = statements(text)
        version = json.loads(text).get("Version")
    except (ValueError, KeyError, TypeError):
        yield Refusal(name, "is no policy document: JSON with a list Statement")
        return
    if version != "2012-10-17":
        yield Refusal(
            name, f"Version is 2012-10-17, not {version!r}: policy variables mean nothing before it"
        )
    if len(text) > _LONGEST:
        yield Refusal(name, f"is longer than {_LONGEST} characters")
    for statement in found:
        if statement.get("Effect") not in ("Allow", "Deny"):
            yield Refusal(name, f"Effect is Allow or Deny, not {statement.get('Effect')!r}")
        actions = statement.get("Action") or statement.get("NotAction") or []
        for action in actions if isinstance(actions, list) else [actions]:
            yield from _action(name, str(action))


def _action(name: str, action: str) -> Iterator[Refusal]:
    service, _, operation = action.partition(":")
    if action == "*" or action in _WITHOUT_OPERATION or service not in _SERVICES:
        return
    if not any(fnmatch.fnmatchcase(known, operation) for known in amazon.operations(service)):
        yield Refusal(name, f"{service} has no action {operation}")


@alone(ROLE_TYPE)
def trust_is_a_policy(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html; a trust policy
    names who is trusted.
    """
    yield from document(inputs, "assumeRolePolicy")
    text = get(inputs, "assumeRolePolicy")
    try:
        unnamed = [one for one in statements(str(text)) if not one.get("Principal")]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(text, str) and unnamed:
        yield Refusal("assumeRolePolicy", "every statement names a Principal")


@alone(POLICY_TYPE)
def policies_are_policies(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"""
    yield from document(inputs, "policy")


@alone(ROLE_POLICY.token)
def inline_policies_are_policies(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"""
    yield from document(inputs, "policy")
