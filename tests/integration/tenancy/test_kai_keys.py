"""What kai_keys.yaml says that a policy refuses is tried, in new work and by an update of what runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.tenancy.attack import CHANGES, Way
from tests.integration.tenancy.attacks.kai import ALL
from tests.integration.tenancy.fields import alternatives
from tests.integration.tenancy.judgements import Effect, kai_keys

_WAYS = {"create": (Way.CREATE,), "update": CHANGES}


def _refused() -> Iterator[tuple[str, str, str]]:
    for each in kai_keys():
        if each.verdict is Effect.REFUSED:
            yield from ((each.part, each.by, key) for key in alternatives(each.field))


@pytest.mark.parametrize(("part", "policy", "key"), tuple(_refused()))
def test_a_key_that_is_refused_is_tried(part: str, policy: str, key: str) -> None:
    """test_kai_policies.py sends the attacks."""
    of_policy = (attack for attack in ALL if attack.policy == policy and set(attack.tried) & set(_WAYS[part]))
    assert any(attack.path.endswith(f"{{{key}}}") for attack in of_policy), (
        f"no attack of {policy} writes {key}"
    )


def test_a_key_is_judged_once_for_each_write() -> None:
    judged = [(each.part, key) for each in kai_keys() for key in alternatives(each.field)]
    assert len(judged) == len(set(judged))
    assert {key for part, key in judged if part == "create"} == {
        key for part, key in judged if part == "update"
    }
