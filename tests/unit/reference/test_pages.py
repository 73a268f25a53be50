"""The generated pages are current, and no row of them is without its meaning."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from muster.model import gangpolicy, queuetree
from muster.model.gangpolicy import GangPolicy
from muster.policies.pack import RULES
from muster.render.observability import alerts
from release.reference import components, stack_file
from release.reference.__main__ import PAGES
from release.reference.admission import CASES, Case, answer, sentences, stack

ROOT: Final = Path(__file__).resolve().parents[3]
FOLDER: Final = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "write it anew: make reference"


def test_every_argument_of_a_component_is_explained() -> None:
    found = list(components.arguments())
    assert len(found) > 20
    assert [f"{each.name}.{one.name}" for each in found for one in each.arguments if not one.meaning] == []


def test_the_arguments_of_a_class_are_read_from_its_docstring() -> None:
    source = '''
class CacheArgs:
    """Where it is kept.

    `path`: a folder,
    made where it is missing. `size` (GKE), `age`: bounds;
    None: none.

    Both are checked.
    """

    path: "Input[str]"
    size: int | None = None
    age: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    _hidden: int = 0
'''
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    found = components.documented(node)
    assert found.text == "Where it is kept.\n\nBoth are checked."
    assert [(each.name, each.type, each.default, each.meaning) for each in found.arguments] == [
        ("path", "Input[str]", "", "A folder, made where it is missing."),
        ("size", "int | None", "None", "Bounds; None: none."),
        ("age", "Mapping[str, int]", "{}", "Bounds; None: none."),
    ]


@pytest.mark.parametrize(
    "crd", [gangpolicy.crd(), queuetree.crd()], ids=lambda crd: crd["spec"]["names"]["kind"]
)
def test_every_field_of_a_custom_resource_is_explained(crd: dict[str, object]) -> None:
    rows = list(stack_file.fields(crd))
    assert len(rows) > 10
    assert [name for name, _, _, meaning in rows if not meaning] == []


def test_every_policy_says_why() -> None:
    assert [rule.name for rule in RULES if not rule.why] == []


def test_every_policy_that_is_written_is_on_the_page_of_admission() -> None:
    page = (FOLDER / "admission.md").read_text(encoding="utf-8")
    folder = ROOT / "muster/render/tenancy/policies"
    # One policy has a file for each scheduler.
    names = {file.stem.removesuffix("-kai") for file in folder.glob("muster-*.yaml")}
    assert len(names) > 25
    assert {name for name in names if f"\n## {name}\n" not in page and f"\n- `{name}`:" not in page} == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_job_that_never_fits_is_refused_with_what_to_write(case: Case) -> None:
    assert re.search(r"^Job train would never run: .+; .+", answer(case, stack()))


def test_the_sentences_of_a_message_are_its_own_and_those_of_its_faults() -> None:
    variables = {
        "faults": "(object.spec.x == 'a b c' ? [] : ['remove x from ' + string(y)]) + variables.more",
        "more": "list.map(each, {'path': dyn('spec of it'), 'fix': 'set it\\'s ' + each + ' to 1'})",
        "other": "['never shown here']",
    }
    message = "object.kind + ' ' + object.metadata.name + ' would (not) run: ' + variables.faults.join('; ')"
    assert sentences(message, variables) == [
        "KIND NAME would (not) run: …",
        "remove x from …",
        "set it's … to 1",
    ]


def test_the_runbook_of_an_alert_is_a_section_of_a_page() -> None:
    for alert in alerts(GangPolicy()):
        page, _, anchor = alert.rule()["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^### (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [heading.lower() for heading in headings]
