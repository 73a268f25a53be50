"""Versions: how long GKE and EKS support a minor version of Kubernetes, and which versions of programs work.

Responsible for the dates, with their sources, and for what they mean on a given day.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from muster.model import ray
from muster.model.programs import Version
from muster.model.regions import Provider
from muster.model.stack import Stack
from muster.model.tenancy import TenancyMode
from muster.model.violations import Violation

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


# The versions of each component that Muster installs: from which on, before which, and why.
#
# From the minimum to the first unknown one versions are within what Muster's suites run or were compared
# with. Newer ones are accepted where their release notes were read and no suite of Muster's has run them:
# each has what its notes require of a person, and where that touches a stack. A version that is in neither
# table is refused.


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a release requires or changes by itself. `concerns`: which stacks, or why none. `touches`: the
    config path that it concerns in a stack, "" where it does not; None for what touches no stack. `fix` is an
    instruction. `first` and `until`: the versions from which on, and before which, it applies.
    """

    summary: str
    concerns: str
    touches: Callable[[Stack], str] | None = None
    fix: str = ""
    first: Version | None = None
    until: Version | None = None

    def applies(self, version: Version) -> bool:
        return (self.first or version) <= version and (self.until is None or version < self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """`versions` of `component` that were read, and `actions` of all of them. `source` and `read`: where, and
    on which day.
    """

    component: str
    versions: tuple[str, ...]
    actions: tuple[Action, ...]
    source: str
    read: date

    def required(self, version: Version) -> tuple[Action, ...]:
        """The actions that one of the versions requires."""
        return tuple(action for action in self.actions if action.applies(version))

    def touching(self, version: Version, stack: Stack) -> Iterator[tuple[str, Action]]:
        """Config path and action, for those that touch the stack."""
        for action in self.required(version):
            if action.touches is not None and (path := action.touches(stack)):
                yield path, action


def reading_of(component: str, version: Version) -> Reading | None:
    """The reading that has the version; None where it was not read."""
    return next(
        (each for each in READINGS if each.component == component and str(version) in each.versions), None
    )


def read_versions(component: str) -> tuple[str, ...]:
    return tuple(text for each in READINGS if each.component == component for text in each.versions)


def _unguarded_services(stack: Stack) -> str:
    """Elsewhere a policy demands the strategy already."""
    is_guarded = stack.tenancy.mode is TenancyMode.ENFORCE or not stack.scheduler.traits.admits_jobs
    return "" if is_guarded else "muster:tenancy.mode"


_NO_KEY: Final = "none: no key of a stack writes it"
_NOT_QUEUED: Final = "none: Muster's Kueue queues none of these"
_CODE: Final = "none: Muster extends Kueue by admission checks and has no integration of its own"

# v0.20.0's notes were read whole; of the patches, what their notes require. Those of 0.20.2 were not found.
_KUEUE: Final = Reading(
    component="kueue",
    versions=("0.20.0", "0.20.1", "0.20.3", "0.20.4", "0.20.5", "0.20.6", "0.20.7"),
    source=(
        "https://github.com/kubernetes-sigs/kueue/blob/144402ada86f9605f19a07d3d0cba49e1fb1b5b6/CHANGELOG/"
        "CHANGELOG-0.20.md, https://newreleases.io/project/github/kubernetes-sigs/kueue/release/v0.20.7"
    ),
    read=date(2026, 11, 27),
    actions=(
        Action(
            summary="v1beta1 is no longer served: manifests and clients need v1beta2 (kueue#14558)",
            concerns="none: Muster writes and reads v1beta2; other clients of the cluster are not known here",
        ),
        Action(
            summary=(
                "the API server cannot fill its caches of upgraded Kueue objects, because their CRDs name a "
                "conversion that is gone (kueue#18411)"
            ),
            concerns="stacks that install Kueue",
            touches=lambda stack: "muster:versions.kueue" if stack.kueue.install else "",
            fix="use 0.20.6 or newer where an older Kueue ran before.",
            until=Version(0, 20, 6),
        ),
        Action(
            summary="a priority class `default` becomes that of every job that names none (kueue#13719)",
            concerns="stacks with a priority named `default`",
            touches=lambda stack: (
                "muster:priorities.default"
                if any(each.name == "default" for each in stack.priorities)
                else ""
            ),
            fix="rename it, unless every such job is to have it.",
        ),
        Action(
            summary="usage counts from the reservation of quota, before a gang has its nodes (kueue#15000)",
            concerns="stacks with `muster:kueue.admissionFairSharing`",
            touches=lambda stack: (
                "muster:kueue.admissionFairSharing" if stack.kueue.usage_sharing is not None else ""
            ),
            fix="nothing, if gangs that wait may count; otherwise remove it.",
        ),
        Action(
            summary=(
                "a RayService needs upgradeStrategy.type None, or elastic workload slices, and is refused "
                "otherwise (kueue#16094)"
            ),
            concerns="stacks with Kueue and without `muster:tenancy: enforce`",
            touches=_unguarded_services,
            fix="write `enforce`, which asks for it already, or tell teams to set None.",
        ),
        Action(
            summary="waiting work has new reasons, such as WaitingForQuota for Pending (kueue#13063)",
            concerns="none: Muster reads the state and the message of the condition",
        ),
        Action(
            summary="a device class or a transformation named `pods` stops Kueue (kueue#13989)",
            concerns="stacks that map a device class to `pods`",
            touches=lambda stack: (
                "muster:kueue.deviceClasses" if "pods" in stack.kueue.device_classes.values() else ""
            ),
            fix="map it to a resource of another name.",
        ),
        Action(
            summary="overhead that shares the name of a device is charged (kueue#14154)", concerns=_NO_KEY
        ),
        Action(summary="KueueViz asks for RBAC (kueue#13810)", concerns="none: Muster does not install it"),
        Action(summary="the size of a LeaderWorkerSet's groups is fixed (kueue#13279)", concerns=_NOT_QUEUED),
        Action(
            summary="an invalid selector of LocalQueue metrics stops Kueue (kueue#16379)", concerns=_NO_KEY
        ),
        Action(
            summary="SparkApplications are charged what Spark requests (kueue#15833)", concerns=_NOT_QUEUED
        ),
        Action(
            summary="a gate of topologies depends on TopologyAwareScheduling (kueue#14237)", concerns=_NO_KEY
        ),
        Action(
            summary="slices of a topology are validated (kueue#12728)",
            concerns="none: no key of a stack writes slices",
        ),
        Action(summary="TrainJobs need Trainer 2.3 (kueue#14504)", concerns=_NOT_QUEUED),
        Action(summary="integrations of one's own have another interface (kueue#12849)", concerns=_CODE),
        Action(
            summary="messages and levels of the log change (kueue#17746, kueue#17747)",
            concerns="none: no alert or command of Muster's reads Kueue's log",
            first=Version(0, 20, 4),
        ),
    ),
)
# The notes of 1.7.0 were found in part, so its CRDs, chart and gates were compared with those of 1.6.2.
_KUBERAY: Final = Reading(
    component="kuberay",
    versions=("1.7.0", "1.7.1"),
    source=(
        "https://github.com/ray-project/kuberay/compare/v1.6.2...v1.7.0, "
        "https://github.com/kuberay-project/kuberay/releases"
    ),
    read=date(2026, 11, 27),
    actions=(
        Action(
            summary=(
                "Ray objects have fields that no policy of this stack judges: autoscalerOptions.command and "
                "args, gcsFaultToleranceOptions.backend and storage, headGroupSpec.ingressOptions, "
                "historyServerOptions, networkPolicy, tlsOptions, priority of a worker group, suspend of a "
                "RayService"
            ),
            concerns="stacks with policies (`muster:tenancy`)",
            touches=lambda stack: "" if stack.tenancy.mode is TenancyMode.OFF else "muster:versions.kuberay",
            fix="use 1.6 where tenants are not trusted.",
        ),
        Action(
            summary="RayServiceIncrementalUpgrade is on: RayServices may make a second cluster and a Gateway",
            concerns="stacks with `muster:tenancy: off`",
            touches=lambda stack: "muster:tenancy.mode" if stack.tenancy.mode is TenancyMode.OFF else "",
            fix="write `enforce`, which refuses it.",
        ),
        Action(summary="the gate AsyncJobInfoQuery is gone", concerns="none: Muster sets no gate"),
        Action(
            summary="metrics.serviceMonitor.selector of the chart is now additionalLabels",
            concerns="none: Muster does not set it",
        ),
        Action(
            summary="the History Server no longer reaches running clusters (kuberay#5199)",
            concerns="none: Muster does not install it",
            first=Version(1, 7, 1),
        ),
    ),
)

READINGS: Final = (_KUEUE, _KUBERAY)


@dataclass(frozen=True, slots=True)
class MinimumVersion:
    """`version` is the oldest that is allowed; `reason` completes "X is below Y: ..."; `source` is a URL,
    `read` the day on which it was read.
    """

    version: Version
    reason: str
    source: str
    read: date


_ROWS: Final = tomllib.loads((files("muster.model") / "minimum_versions.toml").read_text(encoding="utf-8"))
MINIMUM_VERSIONS: Final[Mapping[str, MinimumVersion]] = MappingProxyType(
    {
        name: MinimumVersion(
            Version.of(row["version"]) if "version" in row else ray.FLOOR,
            row["reason"],
            row["source"],
            row["read"],
        )
        for name, row in _ROWS.items()
    }
)
FIRST_UNKNOWN: Final[Mapping[str, Version]] = MappingProxyType(
    {name: Version.of(row["unknown"]) for name, row in _ROWS.items() if "unknown" in row}
)
"""The first version that Muster's values and manifests were not compared with."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """`message` completes "X is ...", `fix` has versions that can be used."""

    message: str
    fix: str
    source: str


def out_of_range(component: str, text: str) -> OutOfRange | None:
    """Why this version cannot be used; None where it can, or where the component is not known."""
    version, minimum = Version.of(text), MINIMUM_VERSIONS.get(component)
    if minimum is not None and version < minimum.version:
        message = f"{text} is below {minimum.version}: {minimum.reason}."
        return OutOfRange(message, f"use {minimum.version} or newer.", minimum.source)
    unknown = FIRST_UNKNOWN.get(component)
    if unknown is not None and version >= unknown and reading_of(component, version) is None:
        message = f"{text} is newer than what Muster was compared with, which ends before {unknown}."
        read = read_versions(component)
        also = f", one whose notes were read ({', '.join(read)})" if read else ""
        return OutOfRange(message, f"use a version below {unknown}{also}, or a newer Muster.", "")
    return None


def minimum_version_rules(versions: Mapping[str, str]) -> list[Violation]:
    """Every version that is out of range. A component without an entry passes."""
    found = []
    for name, text in versions.items():
        if problem := out_of_range(name, text):
            found.append(Violation(name, problem.message, problem.fix))
    return found
