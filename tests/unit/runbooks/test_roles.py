"""The roles in docs/runbooks/roles hold what the components' resources take, and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.loaders import Loader

from tests.unit.runbooks.rights import AMAZON, AMAZON_COMMANDS, AMAZON_FUNCTIONS, GOOGLE, GOOGLE_COMMANDS

ROOT = Path(__file__).parents[3]
ROLES = ROOT / "docs" / "runbooks" / "roles"
_MADE = re.compile(r"\b(?P<cloud>gcp|aws)\.(?P<kind>[a-z0-9]+\.[A-Z]\w+)\b")
# Actions that are no call of an API: rights to hand something on, or named otherwise than the call.
_NO_CALL = {"iam:PassRole", "s3:PutBucketPublicAccessBlock", "s3:PutEncryptionConfiguration", "s3:ListBucket"}
# A function of a provider, by its token.
_ASKED = re.compile(r"(?:aws|gcp):[a-z]\w*/get\w+:get\w+")
_MODELS = {"servicequotas": "service-quotas"}


def made_by_components(cloud: str) -> set[str]:
    """Every kind of resource that the components make in a cloud."""
    found = set()
    for path in (ROOT / "components").rglob("*.py"):
        for match in _MADE.finditer(path.read_text(encoding="utf-8")):
            if match["cloud"] == cloud and not match["kind"].endswith("Args"):
                found.add(match["kind"])
    return found


def asked_by_components() -> set[str]:
    """Every function of a cloud's provider that the components call."""
    return {
        match[0]
        for path in (ROOT / "components").rglob("*.py")
        for match in _ASKED.finditer(path.read_text(encoding="utf-8"))
    }


def rights(*tables: dict[str, tuple[str, ...]]) -> set[str]:
    return {right for table in tables for held in table.values() for right in held}


def amazon_actions() -> set[str]:
    policy: dict[str, Any] = json.loads((ROLES / "eks-deployer.json").read_text())
    found: set[str] = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        found |= {actions} if isinstance(actions, str) else set(actions)
    return found


@pytest.mark.parametrize(("cloud", "table"), [("gcp", GOOGLE), ("aws", AMAZON)])
def test_every_resource_of_the_components_is_known_and_no_other(
    cloud: str, table: dict[str, tuple[str, ...]]
) -> None:
    assert made_by_components(cloud) == set(table)


def test_the_gke_role_is_exactly_what_is_needed() -> None:
    role = yaml.safe_load((ROLES / "gke-deployer.yaml").read_text())
    assert set(role["includedPermissions"]) == rights(GOOGLE, GOOGLE_COMMANDS)


def test_the_eks_policy_is_exactly_what_is_needed() -> None:
    assert amazon_actions() == rights(AMAZON, AMAZON_FUNCTIONS, AMAZON_COMMANDS)


def test_every_function_that_the_components_call_is_known_and_no_other() -> None:
    assert asked_by_components() == set(AMAZON_FUNCTIONS)


def test_every_action_is_one_that_aws_has() -> None:
    loader = Loader()
    for action in sorted(amazon_actions() - _NO_CALL):
        service, _, name = action.partition(":")
        model = loader.load_service_model(_MODELS.get(service, service), "service-2")
        assert name in model["operations"], action


def test_no_role_has_a_wildcard_and_roles_are_handed_to_named_services_only() -> None:
    assert "*" not in "".join(amazon_actions())
    policy = json.loads((ROLES / "eks-deployer.json").read_text())
    for statement in policy["Statement"]:
        if "iam:PassRole" in statement["Action"]:
            assert statement["Condition"]["StringEquals"]["iam:PassedToService"]


def test_the_condition_lets_grant_exactly_what_the_components_grant() -> None:
    from muster.components.clusters.gke import component

    condition = yaml.safe_load((ROLES / "gke-condition.yaml").read_text())
    listed = set(re.findall(r"'(roles/[^']+)'", condition["expression"]))
    assert listed == {*component.ROLES, *component.TEAM_ROLES.values(), component.ACT_AS}


def test_the_eks_policy_is_one_that_iam_takes() -> None:
    """6,144 characters without white space:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    text = (ROLES / "eks-deployer.json").read_text()
    assert len(re.sub(r"\s", "", text)) <= 6144
