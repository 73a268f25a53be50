"""Versions whose notes were read: accepted with what they require, refused where a run is required."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.programs import Version
from muster.model.regions import Provider
from muster.model.versions import FIRST_UNKNOWN, READINGS
from muster.model.violations import Violation
from tests.unit.model.model_stacks import new_config

KUEUE = "muster:versions.kueue"


def violations(versions: Mapping[str, str], *, name: str = "dev", **more: Any) -> list[Violation]:
    config = new_config(Provider.EXISTING, versions=dict(versions)) | more
    text = yaml.safe_dump({"config": config})
    return examine(parse_text(text, source=f"stacks/Pulumi.{name}.yaml"))[1]


def at(path: str, found: list[Violation]) -> list[Violation]:
    return [each for each in found if each.path == path]


@pytest.mark.parametrize(("program", "version"), [("kueue", "0.20.4"), ("kuberay", "1.7.1")])
def test_a_read_version_is_accepted_and_says_so(program: str, version: str) -> None:
    found = violations({program: version})
    assert [each for each in found if each.level == "error"] == []
    first = at(f"muster:versions.{program}", found)[0]
    assert f"{version} was not run by Muster's suites" in first.message
    assert "read on 2026-11-27" in first.message


@pytest.mark.parametrize("version", ["0.20.2", "0.20.99", "0.21.0"])
def test_a_version_that_nobody_read_is_refused(version: str) -> None:
    (found,) = at(KUEUE, violations({"kueue": version}))
    assert found.level == "error"
    assert "0.20.7" in found.fix


@pytest.mark.parametrize(
    ("name", "require", "level"),
    [
        ("dev", None, "warning"),
        ("dev", "run", "error"),
        ("gke-prod", None, "error"),
        ("gke-prod", "read", "warning"),
        ("product", None, "warning"),
    ],
)
def test_production_requires_a_version_that_was_run(name: str, require: str | None, level: str) -> None:
    said = {"kueue": "0.20.6"} | ({"require": require} if require else {})
    (found,) = at(KUEUE, violations(said, name=name))
    assert found.level == level
    assert at(KUEUE, violations({"kueue": "0.19.2", "require": "run"}, name=name)) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("muster:priorities.default", {"muster:priorities": {"default": 10}}),
        ("muster:kueue.admissionFairSharing", {"muster:kueue": {"admissionFairSharing": {"halfLife": "1h"}}}),
        ("muster:tenancy.mode", {"muster:tenancy": "off"}),
    ],
)
def test_an_action_is_told_where_it_touches_the_stack(path: str, said: dict[str, Any]) -> None:
    without, touched = violations({"kueue": "0.20.6"}), violations({"kueue": "0.20.6"}, **said)
    assert at(path, without) == []
    assert any("Kueue 0.20.6: " in each.message for each in at(path, touched))
    assert "this stack is touched by 1." in at(KUEUE, touched)[0].message


def test_an_action_ends_with_the_version_that_mended_it() -> None:
    assert len(at(KUEUE, violations({"kueue": "0.20.5"}))) == 2
    assert len(at(KUEUE, violations({"kueue": "0.20.6"}))) == 1


def test_each_action_touches_a_stack_or_says_why_it_touches_none() -> None:
    for reading in READINGS:
        assert all(Version.of(text) >= FIRST_UNKNOWN[reading.component] for text in reading.versions)
        for action in reading.actions:
            assert action.concerns.startswith("none: ") is (action.touches is None)
            assert bool(action.fix) is (action.touches is not None)
