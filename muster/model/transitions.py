"""What happens when a component goes from one version to another: one table for every reader.

`muster diff`, `muster doctor`, the program (before it installs over what a cluster has) and the page
docs/reference/versions.md read it. Which versions there are to choose from is versions.py.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from importlib.resources import files
from typing import Final

from muster.model.programs import Version
from muster.model.versions import MINIMUM_VERSIONS, out_of_range


class Verdict(StrEnum):
    """ordered: it works if the steps of the reason are taken first."""

    SAFE = "safe"
    ORDERED = "needs an order"
    REFUSED = "refused"


class Step(StrEnum):
    """How far the new version is from the old one."""

    PATCH = "a newer patch"
    NEXT = "the next minor version"
    LEAP = "more than one minor version"
    PATCH_BACK = "an older patch"
    BACK = "an older minor version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """`steps` of `component`, where the old version is below `below` (None: any). `reason` has the order, or
    why it is refused. `source` is a URL, or the test that takes the step; `is_tested` says which.
    `read`: the day on which a URL was read; a test has none.
    """

    component: str
    steps: frozenset[Step]
    verdict: Verdict
    reason: str
    source: str
    below: Version | None = None
    is_tested: bool = False
    read: date = date.min

    def applies(self, before: Version, step: Step) -> bool:
        return step in self.steps and (self.below is None or before < self.below)


_UNTESTED: Final = "was not tested; do it first on a cluster without work that counts"


def _rows() -> Iterator[Transition]:
    text = (files("muster.model") / "transitions.toml").read_text(encoding="utf-8")
    for row in tomllib.loads(text)["transitions"]:
        below_minimum = row.pop("below_minimum", False)
        row["steps"] = frozenset(Step[name] for name in row["steps"])
        row["verdict"] = Verdict[row["verdict"]]
        row["reason"] = row["reason"].replace("{untested}", _UNTESTED)
        for component in row.pop("components"):
            below = MINIMUM_VERSIONS[component].version if below_minimum else None
            yield Transition(component=component, below=below, **row)


TRANSITIONS: Final = tuple(_rows())
"""The first row that applies counts."""


@dataclass(frozen=True, slots=True)
class Judgement:
    component: str
    before: str
    after: str
    verdict: Verdict
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.component} {self.before} to {self.after}: {self.verdict}: {self.reason}."


def judge(component: str, before: str, after: str) -> Judgement | None:
    """The verdict on a change; None where nothing changes or a text is no version."""
    try:
        old, new = Version.of(before), Version.of(after)
    except ValueError:
        return None
    # `1.35` and `1.35.4-gke.1` are the same minor version, and a cloud chooses the patch.
    if old == new or (component == "kubernetes" and old[:2] == new[:2] and 0 in (old.patch, new.patch)):
        return None
    if problem := out_of_range(component, after):
        return Judgement(
            component, before, after, Verdict.REFUSED, problem.message.rstrip("."), problem.source
        )
    step = step_of(old, new)
    row = next(
        (each for each in TRANSITIONS if each.component == component and each.applies(old, step)), None
    )
    if row is None:
        return Judgement(component, before, after, Verdict.ORDERED, f"the step {_UNTESTED}", "")
    return Judgement(component, before, after, row.verdict, row.reason, row.source)


def step_of(old: Version, new: Version) -> Step:
    """A new major version counts as more than one minor version."""
    if old[:2] == new[:2]:
        return Step.PATCH if new > old else Step.PATCH_BACK
    if new < old:
        return Step.BACK
    is_next = old.major == new.major and new.minor == old.minor + 1
    return Step.NEXT if is_next else Step.LEAP
