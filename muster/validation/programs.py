"""Rules for programs that a stack does not install: a setting that only reaches a program through the chart
that Muster installs would silently do nothing, and so would `install: true` of a program without use.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from muster.model.gangpolicy import idle_violations
from muster.model.gpu_operator import gpu_stack, required_installation
from muster.model.kueue.queue import StopPolicy
from muster.model.observability import Scraping
from muster.model.pools import Sharing
from muster.model.programs import OCI, PLACEMENTS, ChartOrigin, Program, has_digest, is_digest
from muster.model.regions import Provider
from muster.model.stack import ArtifactSource, GangMode, Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.identities import team_path

# What `muster:observability` needs of the rest of the stack.

_OBSERVABILITY_PATH: Final = "muster:observability"
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[^?#\s]*)?")


def observability_rules(stack: Stack) -> Iterator[Violation]:
    wanted = stack.observability
    if wanted.metrics is Scraping.GOOGLE and stack.cluster.provider is not Provider.GKE:
        yield Violation(
            f"{_OBSERVABILITY_PATH}.metrics",
            "is google, whose kinds only GKE has.",
            "write prometheus-operator, annotations or off.",
        )
    if wanted.alerts and not wanted.metrics.has_rules:
        yield Violation(
            f"{_OBSERVABILITY_PATH}.alerts",
            f"needs the Prometheus operator to evaluate alerts, but metrics is {wanted.metrics}.",
            "write `metrics: prometheus-operator` (or google on GKE), or leave alerts out.",
        )
    if wanted.runbooks is not None and not _ADDRESS.fullmatch(wanted.runbooks):
        yield Violation(
            f"{_OBSERVABILITY_PATH}.runbooks",
            f"is {wanted.runbooks!r}, which is no address of a page: an alert adds its own `#name`.",
            "write one such as https://docs.example.com/muster/reference/metrics.html.",
        )
    if stack.gang_admission.mode is not GangMode.MUSTER:
        yield from _unwatched(stack)
    if wanted.traces is not None and not _ADDRESS.fullmatch(wanted.traces):
        yield Violation(
            f"{_OBSERVABILITY_PATH}.traces",
            f"is {wanted.traces!r}, which is no OTLP endpoint over HTTP.",
            "write one such as http://collector.monitoring:4318.",
        )


def _unwatched(stack: Stack) -> Iterator[Violation]:
    """Metrics may be set explicitly to their default."""
    wanted, mode = stack.observability, stack.gang_admission.mode
    said = {"alerts": wanted.alerts, "dashboard": wanted.dashboard, "traces": wanted.traces is not None}
    for name, is_said in said.items():
        if is_said:
            message = f"is about Muster's controller, which `muster:gangAdmission: {mode}` leaves out."
            yield Violation(
                f"{_OBSERVABILITY_PATH}.{name}", message, "leave it out, or write another gangAdmission."
            )


# What `muster:recording` needs of the rest of the stack.

_PATH: Final = "muster:recording"


def recording_rules(stack: Stack) -> Iterator[Violation]:
    wanted = stack.recording
    if wanted.enabled and stack.gang_admission.mode is not GangMode.MUSTER:
        yield Violation(
            f"{_PATH}.enabled",
            "its pod has the image of Muster's controller, which this stack does not install.",
            "remove it and run `muster record` elsewhere, or write `muster:gangAdmission: {mode: muster}`.",
        )
    words = {"ephemeral": wanted.ephemeral, "names": wanted.names, "forecasts": wanted.forecasts}
    for key, is_set in words.items():
        if is_set and not wanted.enabled:
            yield Violation(
                f"{_PATH}.{key}", "is set, but nothing is recorded.", "write `enabled: true`, or remove it."
            )
    if wanted.ephemeral and wanted.storage_class is not None:
        yield Violation(
            f"{_PATH}.storageClass",
            "names the StorageClass of a volume that `ephemeral: true` leaves out.",
            "remove one of the two.",
        )
    if wanted.forecasts:
        yield from (
            Violation(
                f"{_PATH}.forecasts",
                f"Kueue's scheduler plays what may follow, and it cannot play {what}.",
                "remove it.",
            )
            for what in _unplayable(stack)
        )


def _unplayable(stack: Stack) -> Iterator[str]:
    if not stack.scheduler.traits.admits_jobs:
        yield f"a stack with {stack.scheduler}"
    if stack.kueue.usage_sharing is not None:
        yield "`muster:kueue.admissionFairSharing`"
    if stack.kueue.topologies:
        yield "`muster:kueue.topologies`"


def budget_rules(stack: Stack) -> Iterator[Violation]:
    """What budgets need: hours that are recorded, and queues that can be stopped."""
    budgets, recording = stack.budgets, stack.recording
    if not budgets.teams:
        return
    path = "muster:budgets"
    if not stack.scheduler.traits.admits_jobs:
        yield Violation(
            path,
            f"{stack.scheduler.proper_name} has no queue that starts nothing more and lets its work run.",
            "remove it, or use Kueue.",
        )
    elif not recording.enabled or recording.ephemeral:
        why = "the recording is lost with its pod" if recording.enabled else "nothing is recorded"
        fix = "write `muster:recording: {enabled: true}` with a volume."
        yield Violation(path, f"counts the hours of the cluster's recording, and {why}.", fix)
    teams = {team.name: team for _, team in stack.teams()}
    for name in budgets.teams:
        if name not in teams:
            fix = suggestion(name, sorted(teams), noun="team")
            yield Violation(f"{path}.teams.{name}", "is no team of this stack.", fix)
        elif any(each.stop_policy is not StopPolicy.NONE for each in teams[name].kueue.local_queues):
            yield Violation(
                f"{path}.teams.{name}",
                "stops the LocalQueues of the team, and the stack gives one of them a `stopPolicy`.",
                "remove one of the two.",
            )


_SHORTEST: Final = timedelta(minutes=5)


def idle_rules(stack: Stack) -> Iterator[Violation]:
    """What `idle` needs: our controller with Kueue, and an exporter."""
    for chain, team in stack.teams():
        if team.idle is None:
            continue
        path = at(team_path(chain, team), "idle")
        if not stack.answers_checks:
            message = "the controller of Muster's gang admission looks at gangs, with Kueue alone."
            fix = "remove it, or use Kueue and `muster:gangAdmission`."
            yield Violation(path, message, fix)
        elif team.queue is not None:
            yield Violation(path, f"its work is in the queue of team {team.queue}.", "write it there.")
        elif required_installation(stack) is None:
            message = "Muster knows of no dcgm-exporter on the nodes: where none runs, nothing is idle."
            yield Violation(path, message, "run the GPU Operator, or remove it.", "warning")
        yield from idle_violations(team.idle, path, least=_SHORTEST)


# Where charts and images come from: sources that can be used, and images that are exactly one image.


def chart_rules(stack: Stack) -> list[Violation]:
    return [*_charts(stack), *_images(stack)]


def _charts(stack: Stack) -> Iterator[Violation]:
    source = stack.charts
    if source.origin is ChartOrigin.MIRROR and not source.location.startswith(OCI):
        message = f"{source.location!r} is no OCI registry."
        yield Violation("muster:charts.mirror", message, f"write it as {OCI}registry.example/charts.")
    for name, digest in source.digests.items():
        if not is_digest(digest):
            yield Violation(
                f"muster:charts.digests.{name}",
                f"{digest!r} is no digest.",
                "write sha256: and 64 hexadecimal digits; `muster image charts` prints it.",
            )


def _images(stack: Stack) -> Iterator[Violation]:
    ours = stack.images.gang_admission
    if ours is not None and not has_digest(ours):
        yield Violation(
            "muster:image",
            f"{ours!r} has no digest: a controller with rights over queues has to be exactly one image.",
            "run `muster image push STACK`, which publishes it and writes name@sha256:... here.",
        )
    for name, reference in stack.images.pinned.items():
        if not has_digest(reference):
            message = f"{reference!r} names no digest."
            yield Violation(f"muster:images.{name}", message, "write it as name@sha256:...")
    if stack.images.mirror is not None and "://" in stack.images.mirror:
        message = f"{stack.images.mirror!r} has a scheme; images have none."
        yield Violation(
            "muster:images.mirror", message, "write the registry and a path: registry.example/path."
        )


def program_rules(stack: Stack) -> list[Violation]:
    """Every setting that has no effect because its program is not installed by the stack."""
    found: list[Violation] = []
    if not stack.installs(Program.GPU_OPERATOR):
        found += _gpu_operator(stack)
    elif stack.gpu_operator.install and required_installation(stack) is None:
        message = f"installs nothing: {_without_operator(stack)}."
        found.append(Violation(at(PLACEMENTS[Program.GPU_OPERATOR].key, "install"), message, "remove it."))
    return found


def _without_operator(stack: Stack) -> str:
    """Why a stack that asks for the GPU Operator gets none."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return "with `muster:artifacts: local` GPUs are simulated"
    if gpu_stack(stack.cluster) is None:
        return "EKS Auto Mode has a driver and a device plugin of its own"
    return "no pool has NVIDIA GPUs that the operator serves"


def _gpu_operator(stack: Stack) -> Iterator[Violation]:
    """The operator's device plugin learns how GPUs are shared from a ConfigMap of our chart values."""
    needed = required_installation(stack)
    if needed is None or not needed.has_plugin:
        return
    key = PLACEMENTS[Program.GPU_OPERATOR].key
    fix = f"remove it, or remove `{key}.install: false`."
    for pool in needed.pools:
        if pool.sharing.kind is not Sharing.NONE:
            yield without_effect(at("muster:pools", pool.name, "sharing"), Program.GPU_OPERATOR, fix)


def without_effect(path: str, program: Program, fix: str) -> Violation:
    title = PLACEMENTS[program].title
    return Violation(path, f"has no effect: this stack does not install the {title} that reads it.", fix)
