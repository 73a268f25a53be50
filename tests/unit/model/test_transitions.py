"""The verdict on each step from one version to another, and the report that shows it."""

from pathlib import Path

import pytest

from muster.model.transitions import TRANSITIONS, Verdict, judge
from muster.model.versions import FIRST_UNKNOWN, MINIMUM_VERSIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("component", "before", "after", "verdict"),
    [
        ("kueue", "0.19.1", "0.19.2", Verdict.SAFE),
        ("kueue", "0.18.3", "0.19.2", Verdict.REFUSED),
        ("kueue", "0.19.2", "0.19.1", Verdict.ORDERED),
        ("kueue", "0.19.2", "0.20.6", Verdict.ORDERED),
        ("kueue", "0.19.2", "0.21.0", Verdict.REFUSED),
        ("kuberay", "1.6.1", "1.6.2", Verdict.SAFE),
        ("kuberay", "1.5.1", "1.6.2", Verdict.ORDERED),
        ("kuberay", "1.6.2", "1.5.1", Verdict.REFUSED),
        ("gpu-operator", "25.3.1", "26.7.0", Verdict.ORDERED),
        ("kubernetes", "1.34", "1.35", Verdict.ORDERED),
        ("kubernetes", "1.34", "1.36", Verdict.ORDERED),
        ("kubernetes", "1.35", "1.34", Verdict.REFUSED),
        ("kubernetes", "1.34", "1.33", Verdict.REFUSED),
    ],
)
def test_a_step_has_its_verdict_with_a_source(
    component: str, before: str, after: str, verdict: Verdict
) -> None:
    found = judge(component, before, after)
    assert found is not None
    assert found.verdict is verdict
    assert found.source or after == "0.21.0"
    assert found.reason


@pytest.mark.parametrize(("before", "after"), [("1.34", "1.34"), ("1.35.4-gke.1", "1.35"), ("-", "1.35")])
def test_what_stays_or_is_no_version_is_no_step(before: str, after: str) -> None:
    assert judge("kubernetes", before, after) is None


def test_every_component_with_an_upper_end_has_steps() -> None:
    assert {row.component for row in TRANSITIONS} == set(FIRST_UNKNOWN) <= set(MINIMUM_VERSIONS)


def test_a_source_is_an_address_or_a_test_that_exists() -> None:
    for row in TRANSITIONS:
        assert (ROOT / row.source).is_file() if row.is_tested else row.source.startswith("https://")
