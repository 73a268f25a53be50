"""How long the clouds support a Kubernetes version, and what follows on which day."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from muster import config
from muster.model.clusters import Provider
from muster.model.stack import Stack
from muster.model.versions import CALENDAR, WARNED_BEFORE, Phase, outlook
from muster.validation import check
from muster.validation.versions import support_rules
from tests.unit.model.model_stacks import new_config, new_stack

ROOT = Path(__file__).resolve().parents[3]
END = date(2026, 12, 2)


@pytest.mark.parametrize(
    ("day", "phase"),
    [
        (END - WARNED_BEFORE - timedelta(days=1), Phase.SUPPORTED),
        (END - WARNED_BEFORE, Phase.ENDING),
        (END - timedelta(days=1), Phase.ENDING),
        (END, Phase.OVER),
    ],
)
def test_a_version_is_warned_of_sixty_days_before_its_end(day: date, phase: Phase) -> None:
    found = outlook(Provider.EKS, "1.34", today=day)
    assert found is not None
    assert (found.phase, found.end, found.next_minor) == (phase, END, "1.35")
    assert found.refuses_new is (phase is Phase.OVER)


def test_extended_support_has_its_own_end() -> None:
    found = outlook(Provider.EKS, "1.34", today=END, extended=True)
    assert found is not None
    assert (found.phase, found.end) == (Phase.SUPPORTED, date(2027, 12, 2))


def test_an_estimate_never_refuses() -> None:
    found = outlook(Provider.GKE, "1.33.5-gke.1", today=date(2030, 1, 1))
    assert found is not None
    assert (found.phase, found.refuses_new) == (Phase.OVER, False)
    assert "an estimate" in found.message


@pytest.mark.parametrize("version", ["1.99", "latest", "-"])
def test_what_is_not_in_the_calendar_is_not_judged(version: str) -> None:
    assert outlook(Provider.GKE, version, today=date(2030, 1, 1)) is None


def test_each_line_has_a_source_and_dates_in_their_order() -> None:
    for each in CALENDAR:
        assert each.source.startswith("https://")
        days = [each.released, each.standard, each.extended]
        known = [day for day in days if day is not None]
        assert known == sorted(known)


def stack(version: str) -> Stack:
    cluster = new_config(Provider.EKS)["muster:cluster"] | {"version": version}
    return new_stack(Provider.EKS, cluster=cluster)


def test_validation_warns_and_never_refuses() -> None:
    (found,) = support_rules(stack("1.34"), today=END)
    assert (found.path, found.level) == ("muster:cluster.version", "warning")
    assert "A new cluster of it is refused." in found.message
    assert 'raise it to "1.35"' in found.fix
    assert all(each.path != found.path for each in check(stack("1.34"), adjacent={}))


@pytest.mark.parametrize("file", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda file: file.stem)
def test_shipped_stacks_have_half_a_year_left_when_they_move_on(file: Path) -> None:
    assert not list(support_rules(config.load(file), today=date(2026, 11, 23) + timedelta(days=182)))
