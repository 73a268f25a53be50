"""Whatever is kept by scheduler is kept for each: what a new one lacks is named here, by file."""

import ast
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from muster.model.stack import Scheduler

_ROOT = Path(__file__).resolve().parents[3]
_POLICIES = Path(str(files("muster.render.tenancy.policies")))
# A demo is for stacks that the repository has.
_PARTIAL = ("muster/local/demo/tour.py",)


def _tables() -> dict[str, set[str]]:
    """Place -> the schedulers that a table of the product has rows for."""
    found = {}
    for folder in ("muster", "components"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if "Scheduler.KUEUE:" not in text and "Scheduler.KAI:" not in text:
                continue
            constants = (
                each for each in ast.parse(text).body if isinstance(each, ast.Assign | ast.AnnAssign)
            )
            for node in (node for each in constants for node in ast.walk(each)):
                if isinstance(node, ast.Dict):
                    rows = {ast.unparse(key) for key in node.keys if key is not None}
                    names = {row.partition(".")[2] for row in rows if row.startswith("Scheduler.")}
                    if names:
                        found[f"{path.relative_to(_ROOT)}:{node.lineno}"] = names
    return found


def test_every_table_has_a_row_for_every_scheduler() -> None:
    tables = _tables()
    assert len(tables) > 10
    lacking = {
        place: missing
        for place, names in tables.items()
        if not place.startswith(_PARTIAL) and (missing := {each.name for each in Scheduler} - names)
    }
    assert lacking == {}


@pytest.mark.parametrize("path", sorted(_POLICIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_policy_says_the_same_of_every_scheduler(path: Path) -> None:
    texts = yaml.safe_load(path.read_text()).get("schedulers", {each.value: {} for each in Scheduler})
    assert texts.keys() == {each.value for each in Scheduler}
    assert len({frozenset(each) for each in texts.values()}) == 1
