"""How long GKE and EKS support a minor version of Kubernetes.

Responsible for the dates, with their sources, and for what they mean on a given day.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
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
    extended: date | None
    source: str
    read: date
    note: str = ""
    is_estimate: bool = False


_READ: Final = date(2026, 11, 23)
_GKE_READ: Final = date(2026, 11, 27)
_EKS: Final = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
_GKE: Final = "https://cloud.google.com/kubernetes-engine/docs/release-schedule"
_EKS_COPY: Final = "by its own text at github.com/awsdocs/amazon-eks-user-guide"
_EKS_LATER: Final = "by a copy of endoflife.date; the page itself was not read with this line"
_GKE_COPY: Final = "by a copy of endoflife.date of 2026-08-22; the end of extended support was not read"


def _eks(minor: str, released: date, standard: date, extended: date, note: str = _EKS_COPY) -> Support:
    return Support(
        provider=Provider.EKS,
        minor=minor,
        released=released,
        standard=standard,
        extended=extended,
        source=_EKS,
        read=_READ,
        note=note,
    )


def _gke(minor: str, released: date, standard: date) -> Support:
    """`released`: in the Regular channel, from which GKE counts."""
    return Support(
        provider=Provider.GKE,
        minor=minor,
        released=released,
        standard=standard,
        extended=None,
        source=_GKE,
        read=_GKE_READ,
        note=_GKE_COPY,
        is_estimate=True,
    )


CALENDAR: Final = (
    _eks("1.32", date(2025, 1, 23), date(2026, 3, 23), date(2027, 3, 23)),
    _eks("1.33", date(2025, 5, 29), date(2026, 7, 29), date(2027, 7, 29)),
    _eks("1.34", date(2025, 10, 2), date(2026, 12, 2), date(2027, 12, 2)),
    _eks("1.35", date(2026, 1, 28), date(2027, 3, 27), date(2028, 3, 27), _EKS_LATER),
    _eks("1.36", date(2026, 6, 2), date(2027, 8, 2), date(2028, 8, 2), _EKS_LATER),
    _gke("1.32", date(2025, 2, 11), date(2026, 4, 11)),
    _gke("1.33", date(2025, 6, 3), date(2026, 8, 3)),
    _gke("1.34", date(2025, 9, 30), date(2026, 10, 1)),
    _gke("1.35", date(2026, 2, 11), date(2027, 4, 11)),
    _gke("1.36", date(2026, 6, 9), date(2027, 8, 9)),
)
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
