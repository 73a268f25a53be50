"""Settings of the pack that cannot be read are named, and every other policy goes on."""

from muster.policies.registered import Registered, Resource
from muster.policies.rule import Case
from muster.policies.versions import RULES

_OLD = Resource(
    urn="kueue",
    type="kubernetes:helm.sh/v3:Release",
    name="k",
    inputs={"chart": "kueue", "version": "0.18.0"},
)


def _judged(name: str, **given: object) -> list[str]:
    (rule,) = [each for each in RULES if each.name == name]
    return [each.message for each in rule.judge(Case(Registered((_OLD,)), rule.settings(given)))]


def test_a_day_that_is_none_is_named() -> None:
    assert _judged("kubernetes-support", today="soon") == [
        "the pack's config: today is 'soon', not a day like 2026-11-23."
    ]
    assert _judged("kubernetes-support-ends", today="soon") == []
    assert _judged("kubernetes-support", today="2026-11-23") == []


def test_a_floor_that_is_no_version_is_named_and_the_others_are_compared() -> None:
    unreadable, old = _judged("version-floors", floors={"kuberay": "new"})
    assert "floors.kuberay is 'new'" in unreadable
    assert "kueue 0.18.0 is below 0.19.0" in old
