"""The placeholders of the policies' files, and the values that fill them."""

import pytest

from muster.render.tenancy.policies.policy import policy


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"muster-ending.yaml: \$\{queued\} has no value"):
        policy("muster-ending", kinds={"work": ()}, values={"longestGrace": 60})


def test_a_value_that_no_placeholder_has_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"muster-queues\.yaml does not use most, steers"):
        policy("muster-queues", values={"most": 3}, given={"steers": True})


def test_a_list_of_strings_becomes_one_of_cel() -> None:
    found = policy("muster-ending", kinds={"work": ()}, values={"longestGrace": 6, "queued": ("a", "b")})
    assert "request.resource.resource in ['a', 'b']" in found.rules[2].holds
