"""A stack goes over to Kueue's own check and back while work waits: nothing is stranded or left over."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.model import names
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.render import kueue
from tests.envtest import path_of
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import ROOT, World, is_let_in, is_ours, is_outside, is_theirs
from tests.unit.model.kueue_files import rendered
from tests.waiting import eventually


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_of(load(ROOT / "stacks" / "Pulumi.local.yaml"), tmp_path) as made:
        yield made


def test_work_that_waits_goes_over_to_kueues_own_check_and_back(world: World) -> None:
    ours = world.ours
    builtin = replace(ours, gang_admission=GangAdmission(mode=GangMode.BUILTIN))
    world.begin()
    theirs = [item["metadata"]["name"] for item in kueue.admission_check(builtin) if _is_check(item)]

    with world.manager():
        world.submit("outside", "l4")
        world.submit("asking", "h100")
        for name in ("outside", "asking"):
            eventually(f"{name} has asked", partial(world.requests, name))
        world.answer(world.requests("outside")[0], "Failed")
        eventually("outside waits outside the quota", lambda: is_outside(world.workload("outside")))
        _go_over(world, ours, builtin)
        eventually("outside is let back in", lambda: is_let_in(world.workload("outside")))
        eventually("what asking had asked for is released", lambda: not _ours(world, "asking"))

    # Ours is gone, and Kueue asks anew.
    for name in ("outside", "asking"):
        eventually(f"Kueue has asked for {name}", partial(_theirs, world, name))
        assert not _ours(world, name)
        assert {each["name"] for each in _entries(world, name)} <= set(theirs)
    (request,) = world.requests("outside")
    world.answer(request, "Provisioned")
    eventually("outside is admitted", lambda: world.holds("outside", "Admitted"))

    # And back, while `asking` waits under Kueue's check and `outside` runs under it.
    world.begin()
    _go_over(world, builtin, ours)
    with world.manager():
        eventually("ours has asked for asking", lambda: _ours(world, "asking"))
        eventually("Kueue's request is gone", lambda: not _theirs(world, "asking"))
        assert {each["name"] for each in _entries(world, "asking")} == {names.ADMISSION_CHECK}
        # What ran under Kueue's check runs on, and nothing is bought for it a second time.
        eventually("outside is ready for ours", lambda: world.entry("outside").get("state") == "Ready")
        assert world.holds("outside", "Admitted")
        assert not _ours(world, "outside")


def _go_over(world: World, old: Stack, new: Stack) -> None:
    """As the program does: what is new, then what is gone, then the queues."""
    objects = rendered(new)
    for item in objects:
        if item["kind"] not in ("ClusterQueue", "LocalQueue"):
            apply(world.plane, item)
    kept = {path_of(item) for item in objects}
    for item in reversed(kueue.admission_check(old)):
        if path_of(item) not in kept:
            world.plane.call("DELETE", path_of(item))
    for item in objects:
        if item["kind"] in ("ClusterQueue", "LocalQueue"):
            apply(world.plane, item)


def _is_check(item: dict[str, Any]) -> bool:
    return bool(item["kind"] == "AdmissionCheck")


def _ours(world: World, name: str) -> list[dict[str, Any]]:
    return [each for each in world.requests(name) if is_ours(each, world.uid(name))]


def _theirs(world: World, name: str) -> list[dict[str, Any]]:
    return [each for each in world.requests(name) if is_theirs(each, world.uid(name))]


def _entries(world: World, name: str) -> list[dict[str, Any]]:
    return list(((world.workload(name) or {}).get("status") or {}).get("admissionChecks") or ())
