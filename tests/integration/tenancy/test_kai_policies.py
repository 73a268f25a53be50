"""The policies of a KAI stack compile: the API server refuses an expression that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.render import tenancy
from stackconfig import load
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.conftest import World

_KAI = Path(__file__).parents[3] / "stacks" / "Pulumi.kai-prod.yaml"
POLICIES = [pair[0] for pair in tenancy.policies(load(_KAI))]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["metadata"]["name"])
def test_a_policy_of_a_kai_stack_compiles(world: World, policy: Object) -> None:
    renamed = policy | {"metadata": policy["metadata"] | {"name": f"kai-{policy['metadata']['name']}"}}
    answer = world.admin.create(renamed)
    assert answer.is_allowed, answer.message
