"""Kueue is replaced while gangs wait and run; in the end everything is taken away in its order."""

import asyncio
import urllib.error
from functools import partial
from pathlib import Path
from typing import Final

from muster.config import load
from muster.kubernetes.kubeconfig import load_access
from muster.model import gangpolicy, names, queuetree
from muster.provider.api import Cluster, Deadline
from muster.provider.converge import remove
from muster.provider.manifests import Ref, ref_of
from muster.render import gang, kueue
from muster.render.queuetree import tree
from tests import envtest
from tests.envtest.kueue import define
from tests.integration.kueue_api.conftest import bare_of
from tests.integration.kueue_api.older import Older, migrate, older, stored_versions
from tests.integration.kueue_api.world import KUEUE, STACK, WORKLOADS, World, is_let_in, is_outside
from tests.unit.model.kueue_files import rendered
from tests.waiting import eventually

_CROWD: Final = 12
_MINE: Final = (names.GROUP, names.CONTROLLER_NAME)


def test_kueue_is_replaced_under_load_and_taken_away_after_its_queues(tmp_path: Path) -> None:
    stack = load(STACK)
    config = kueue.manager_config(stack)
    gates = {**config.get("featureGates", {}), "ConcurrentAdmission": True}
    with bare_of(tmp_path) as (plane, programs):
        chart = programs.assets["kueue-chart"]
        before = older(programs, chart)
        before.define(plane)
        with envtest.kueue(
            plane,
            before.programs,
            config={**config, "featureGates": gates},
            chart=before.chart,
        ) as old:
            world = World(plane, stack, old, programs)
            world.begin()
            with world.manager() as ours:
                _begin(world)
                bought = {name: _uids(world, name) for name in ("asking-0", "asking-1", "running")}
                before.store_anew(plane)
                _crowd(world, "stored-anew")
                request = world.asked("asking-0")[0]
                # In the order of the chart: the kinds first, and then the program.
                if before.has_kinds:
                    define(plane, programs)
                old.kill()
                # Its webhook refuses every write to a Workload meanwhile: what is answered is told later. And
                # while one is stored in another version, nobody reads any.
                world.provision(request)
                with envtest.kueue(plane, programs, config=config, chart=chart):
                    _goes_on(world)
                    assert bought == {name: _uids(world, name) for name in bought}
                    _leave_the_old_version(world, before)
                    _uninstall(world)
                # In a namespace that goes, the API server refuses what is created: no want of a right.
                ours.kill()


def _begin(world: World) -> None:
    """A gang that runs, two that ask, one outside the quota, and a crowd without quota."""
    world.run("running")
    for name in ("asking-0", "asking-1"):
        world.submit(name, "l4")
        eventually(f"{name} has asked", partial(world.asked, name))
    world.submit("outside", "h100")
    world.answer(eventually("it has asked", partial(world.asked, "outside"))[0], "Failed")
    eventually("it waits outside the quota", lambda: is_outside(world.workload("outside")))
    _crowd(world, "crowd")


def _crowd(world: World, name: str) -> None:
    for number in range(_CROWD):
        world.submit(f"{name}-{number}", "l4", priority="dev")


def _leave_the_old_version(world: World, before: Older) -> None:
    """What was stored in another version is written anew, and the gangs go on."""
    if not before.has_kinds:
        return
    assert stored_versions(world.plane) == {"v1beta1", "v1beta2"}
    migrate(world.plane)
    assert stored_versions(world.plane) == {"v1beta2"}
    for name in ("running", "asking-0", "asking-1"):
        assert world.holds(name, "Admitted"), name
    world.run("after-it-all", "h100")


def _goes_on(world: World) -> None:
    eventually("Workloads are read again", partial(_is_read, world))
    world.wait_until_runs("asking-0")
    assert world.holds("running", "Admitted")
    world.provision(world.asked("asking-1")[0])
    world.wait_until_runs("asking-1")
    eventually("the one outside is let in", lambda: is_let_in(world.workload("outside")))
    for number in range(_CROWD):
        world.submit(f"late-{number}", "h100", priority="dev")
    eventually("late ones ask too", lambda: any(world.asked(f"late-{number}") for number in range(_CROWD)))


def _is_read(world: World) -> bool:
    """The API server may not have asked the new one yet for what is stored in another version."""
    try:
        return bool(world.plane.call("GET", WORKLOADS))
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        return False


def _uids(world: World, name: str) -> set[str]:
    return {each["metadata"]["uid"] for each in world.asked(name)}


def _uninstall(world: World) -> None:
    """Bundles in the program's order: the queues of teams, then the policy, then the definitions of ours."""
    assert world.items(WORKLOADS), "there is work that waits and runs"
    refs = [ref_of(item) for item in rendered(world.ours)]
    policy = [ref_of(gang.policy(world.ours)), ref_of(tree(world.ours))]
    kinds = [ref_of(gangpolicy.crd()), ref_of(queuetree.crd())]
    for bundle in (refs, policy, kinds):
        failures = asyncio.run(_remove(world, bundle))
        assert not failures
    for path in (WORKLOADS, f"{KUEUE}/clusterqueues", f"{KUEUE}/admissionchecks", f"{KUEUE}/resourceflavors"):
        assert not world.items(path), path
    for path in _ALL:
        for item in world.items(path):
            held = item["metadata"].get("finalizers") or []
            assert not [each for each in held if each.startswith(_MINE)], f"{path} {item['metadata']['name']}"


_ALL: Final = (
    "/api/v1/namespaces",
    "/api/v1/podtemplates",
    "/apis/batch/v1/jobs",
    f"/apis/{names.PROVISIONING_API_VERSION}/provisioningrequests",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)


async def _remove(world: World, refs: list[Ref]) -> list[str]:
    """As the provider of Bundles does it, in as much time."""
    async with Cluster(load_access(str(world.plane.kubeconfig()), None)) as cluster:
        outcome = await remove(cluster, refs, deadline=Deadline(300), log_status=lambda _: None)
        return outcome.failures
