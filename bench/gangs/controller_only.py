"""Measurements of Muster's controller alone: many live Workloads, and the latency of its webhooks.

A cold start ends when the last Workload of every queue was reconciled. Each queue gets one last Workload
that has only quota, and its request is the signal. The times are those of the audit log.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.gangs import audit
from bench.gangs.audit import Call
from bench.gangs.figures import OURS
from bench.gangs.shapes import Shape
from bench.gangs.stage import Stage, await_, bare_stage, program
from bench.gangs.steady_state import NEWCOMER, SteadyState
from bench.gangs.timeline import asker
from bench.gangs.usage import QUIET, quiet, resident, usage
from bench.gangs.variants import Contender
from muster.model import names
from muster.model.stack import GangMode
from tests.envtest import ControlPlane, Programs
from tests.integration.whatif import simulate

Progress = Callable[[str], None]
_SHAPE: Final = Shape(cohorts=5, queues=6)
_OURS: Final = Contender(GangMode.MUSTER, is_tuned=False)
_REQUESTS: Final = f"/apis/{names.PROVISIONING_API_VERSION}/provisioningrequests"
_POLICY: Final = f"/apis/{names.API_VERSION}/{names.GANG_POLICY_PLURAL}/{names.GANG_POLICY}"
_FIRST_TOLD: Final = ("admissionchecks/status", f"{names.GANG_POLICY_PLURAL}/status")
_START_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 1.0
_MIB: Final = 2**20


def steady_state(count: int, programs: Programs, *, on_progress: Progress) -> dict[str, float]:
    """Figures of our manager over `count` live Workloads, by name."""
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        bare_stage(Path(folder), programs, _OURS, _SHAPE) as stage,
    ):
        on_progress("filling the store")
        world = SteadyState(_SHAPE, count)
        asyncio.run(_fill(stage.plane, world))
        # The API server has to know them itself before they can be requested.
        await_(lambda: _count(stage.plane) >= world.running, "all of it is served", seconds=_START_SECONDS)
        on_progress("cold start")
        with program(stage.plane, "manager") as manager:
            found = _cold_start(stage, manager.pid or 0, world)
            on_progress("resync without change")
            found |= _resync(stage, manager.pid or 0)
            found["peak memory, MiB"] = usage(manager.pid or 0).peak / _MIB
    return {"live Workloads": count, "of these running": world.running, **found}


async def _fill(plane: ControlPlane, world: SteadyState) -> None:
    await simulate.put(plane.etcd, world.objects())
    await simulate.put(plane.etcd, (world.newcomer(team) for team in _SHAPE.teams))


def _cold_start(stage: Stage, pid: int, world: SteadyState) -> dict[str, float]:
    begun, since = time.monotonic(), datetime.now(UTC)
    wanted = world.running + len(_SHAPE.teams)
    await_(
        lambda: _count(stage.plane) >= wanted,
        "the last gang of every queue has asked",
        seconds=_START_SECONDS,
        pause=_LOOK_SECONDS,
    )
    cpu = usage(pid).cpu
    quiet(pid)
    ours = _ours(stage, since)
    asked = [each.at for each in ours if each.resource == "provisioningrequests"]
    return {
        "cold start until caught up, s": (max(asked) - since).total_seconds(),
        "cold start, CPU s": cpu,
        "seconds until idle": time.monotonic() - begun - QUIET,
        "writes about what had not changed": len(needless(ours)),
        "memory, MiB": resident(pid) / _MIB,
    }


def _resync(stage: Stage, pid: int) -> dict[str, float]:
    """An annotation on the policy, without a change of its spec, makes the controller reconcile every
    Workload.
    """
    since, before = datetime.now(UTC), usage(pid).cpu
    note = {"metadata": {"annotations": {"bench.muster.dev/told": since.isoformat()}}}
    stage.plane.call("PATCH", _POLICY, note, content_type="application/merge-patch+json")
    quiet(pid)
    writes = len(needless(_ours(stage, since)))
    return {"resync of all, CPU s": usage(pid).cpu - before, "resync of all, writes": writes}


def _ours(stage: Stage, since: datetime) -> list[Call]:
    with stage.log.open("rb") as lines:
        calls = (each for each in audit.calls(lines) if each.agent == OURS and each.at >= since)
        return [each for each in calls if each.resource != audit.LEASES]


def needless(calls: Iterable[Call]) -> list[Call]:
    """All writes but those on the newcomers, on their requests and templates, and on the state of the check
    and its policy, which are written for the first time: nothing else has changed.
    """
    writes = [each for each in calls if each.is_write]
    theirs = {each.name for each in writes if each.verb == "create" and _is_for_newcomer(each)}
    return [each for each in writes if each.name not in theirs and not _is_expected(each)]


def _is_for_newcomer(call: Call) -> bool:
    return (asker(call.body.get("metadata") or {}) or "").startswith(NEWCOMER)


def _is_expected(call: Call) -> bool:
    """An Event is called after whom it is about."""
    return call.name.startswith(NEWCOMER) or call.resource in _FIRST_TOLD


def _count(plane: ControlPlane) -> int:
    """Of all requests, without reading them."""
    page = plane.call("GET", f"{_REQUESTS}?limit=1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)
