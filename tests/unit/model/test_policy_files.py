"""The policies' files: placeholders, and that nothing in them is left over."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from muster.render.tenancy.policies import in_force
from muster.render.tenancy.policies.policy import policy
from release.reference.admission import variants

_FOLDER = Path(str(files("muster.render.tenancy.policies")))
_SHARED = yaml.safe_load((_FOLDER / "shared.yaml").read_text())
_TEXTS = {path.stem: path.read_text() for path in sorted(_FOLDER.glob("*.yaml"))}
_PLACEHOLDER = re.compile(r"\$\{[\w.]+\}")


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"muster-ending.yaml: \$\{queued\} has no value"):
        policy("muster-ending", kinds={"work": ()}, values={"longestGrace": 60})


def test_a_value_that_no_placeholder_has_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"muster-queues\.yaml does not use most, steers"):
        policy("muster-queues", values={"most": 3}, given={"steers": True})


def test_a_list_of_strings_becomes_one_of_cel() -> None:
    found = policy("muster-ending", kinds={"work": ()}, values={"longestGrace": 6, "queued": ("a", "b")})
    assert "request.resource.resource in ['a', 'b']" in found.rules[2].holds


# Filled in by Python.
_OF_PYTHON = ("asksForGpus",)


def test_nothing_that_is_shared_is_left_over() -> None:
    used = "".join(_TEXTS.values())
    named = [*_SHARED["texts"], *_SHARED["expressions"]]
    unused = [name for name in named if f"${{{name}}}" not in used and name not in _OF_PYTHON]
    unused += [name for name in _SHARED["lists"] if f"include: {name}" not in used]
    assert unused == []


def test_every_file_is_a_policy_of_some_stack_and_no_placeholder_is_left() -> None:
    rendered = [made for each in variants().values() for made, _ in in_force(each)]
    for made in rendered:
        texts = [text for _, text in (*made.conditions, *made.words)]
        texts += [text for rule in made.rules for text in (rule.holds, rule.message)]
        assert [text for text in texts if _PLACEHOLDER.search(text)] == [], made.name
    missing = {name.removesuffix("-kai") for name in _TEXTS if name != "shared"} - {
        made.name for made in rendered
    }
    # Those of stacks that the page has no variant of, and that of render/ray.py.
    assert missing <= {"muster-fabric", "muster-kai-sharing", "muster-ray"}


def test_an_expression_in_a_file_can_be_read_at_once() -> None:
    """CEL of a rule or of a named part, before placeholders are filled."""

    def strings(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for item in items for text in strings(item)]

    longest = max((text for each in _TEXTS.values() for text in strings(yaml.safe_load(each))), key=len)
    assert len(longest) < 2000, longest
