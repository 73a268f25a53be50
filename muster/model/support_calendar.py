"""How long GKE and EKS support a minor version of Kubernetes.

Responsible for the dates, with their sources, and for what they mean on a given day.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from importlib.resources import files
from typing import Final

from muster.model.programs import Version
from muster.model.regions import Provider

WARNED_BEFORE: Final = timedelta(days=60)
"""How long before the end a stack is warned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """`standard` and `extended`: the days on which each kind of support ends, None where no source was read.

    `is_estimate`: the publisher calls the dates estimates, so they warn and never refuse. `read`: the day on
    which the source was read, `note` through which copy.
    """

    provider: Provider
    minor: str
    released: date
    standard: date | None
    extended: date | None = None
    source: str
    read: date
    note: str = ""
    is_estimate: bool = False


def _calendar() -> Iterator[Support]:
    text = (files("muster.model") / "support_calendar.toml").read_text(encoding="utf-8")
    for provider, cloud in tomllib.loads(text).items():
        versions = cloud.pop("versions")
        for minor, row in versions.items():
            yield Support(provider=Provider(provider), minor=minor, **{**cloud, **row})


CALENDAR: Final = tuple(_calendar())
"""Versions without a line, such as 1.37, are not judged: no source of their dates was read."""


class Phase(StrEnum):
    SUPPORTED = "supported"
    ENDING = "ends soon"
    OVER = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a version can expect on a day. `end` is the day on which the support that is used ends."""

    support: Support
    phase: Phase
    end: date
    next_minor: str

    @property
    def message(self) -> str:
        """A sentence that begins with what it is about."""
        name = {Provider.EKS: "EKS", Provider.GKE: "GKE"}[self.support.provider]
        verb = "ended" if self.phase is Phase.OVER else "ends"
        about = " (an estimate)" if self.support.is_estimate else ""
        return (
            f"support of Kubernetes {self.support.minor} on {name} {verb} on {self.end}{about}; then "
            f"{name} raises the control plane when it likes"
        )

    @property
    def fix(self) -> str:
        later = f'raise it to "{self.next_minor}"' if self.next_minor else "raise it"
        return (
            f"{later} on a day of your choice, one minor version at a time; see the page "
            '"Upgrades and removal" of the documentation.'
        )

    @property
    def refuses_new(self) -> bool:
        return self.phase is Phase.OVER and not self.support.is_estimate


def outlook(provider: Provider, version: str, *, today: date, extended: bool = False) -> Outlook | None:
    """None where the version is not in the calendar, or no date of its end is. `extended`: the cluster is
    enrolled in extended support.
    """
    try:
        minor = Version.of(version)[:2]
    except ValueError:
        return None
    found = next((each for each in _supports_of(provider) if Version.of(each.minor)[:2] == minor), None)
    end = None if found is None else found.extended if extended else found.standard
    if found is None or end is None:
        return None
    phase = Phase.OVER if today >= end else Phase.ENDING if today >= end - WARNED_BEFORE else Phase.SUPPORTED
    after = f"{minor[0]}.{minor[1] + 1}"
    is_known = any(each.minor == after for each in _supports_of(provider))
    return Outlook(support=found, phase=phase, end=end, next_minor=after if is_known else "")


def _supports_of(provider: Provider) -> Iterator[Support]:
    return (each for each in CALENDAR if each.provider is provider)
