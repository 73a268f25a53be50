"""An older build of the manager and this one, side by side and one after the other: gangs notice nothing.

Leader election fences nothing, so both act at once here, on the same gangs. The older build is the one before
elastic gangs, read out of the history; in a checkout without it, two processes of this build.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import ROOT, STACK, World, is_outside
from tests.waiting import eventually

_BEFORE: Final = "fc210a7efdfd090410e8136496d68c0dfa583f5d"
_ROOMS: Final = ("controller", "model", "stackconfig", "manifests")
_RENDER: Final = """
import json, pathlib, sys
from {root}model.gangpolicy import crd
from {render} import gang
from {config} import load
print(json.dumps([crd(), gang.policy(load(pathlib.Path(sys.argv[1])))]))
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The checkout of the older build; this one's where the history does not reach so far."""
    command = ["git", "archive", "--format=tar", _BEFORE, *_ROOMS]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if made.returncode != 0:
        yield ROOT
        return
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    yield folder


def test_both_act_at_once_and_a_gang_is_bought_once(world: World, older: Path) -> None:
    bought: dict[str, set[str]] = {}

    def look(*names: str) -> bool:
        for name in names:
            live = world.asked(name)
            assert len(live) <= 1, f"{name} has two live requests"
            bought.setdefault(name, set()).update(one["metadata"]["uid"] for one in live)
        return all(bought[name] for name in names)

    _apply_policy(world, older)
    with world.manager(name="older", code=older) as old:
        world.run("running")
        world.submit("asking", "l4")
        world.submit("outside", "h100")
        eventually("both have asked", lambda: look("asking", "outside"))
        world.answer(world.asked("outside")[0], "Failed")
        eventually("one waits outside the quota", lambda: is_outside(world.workload("outside")))

        with world.manager(name="newer"):
            together = [f"together-{number}" for number in range(4)]
            for name in together:
                world.submit(name, "l4")
            eventually("each has asked", lambda: look("asking", *together))
            for name in together:
                world.provision(world.asked(name)[0])
            eventually("all run", lambda: look(*together) and _all_run(world, together))
            assert all(len(bought[name]) == 1 for name in together)

            old.kill()
            _apply_policy(world, ROOT)
            # What the older one has begun is finished, not begun again.
            world.provision(world.asked("asking")[0])
            eventually("it runs", lambda: look("asking") and world.holds("asking", "Admitted"))
            assert len(bought["asking"]) == 1
            (again,) = eventually("the one outside asks again", partial(world.asked, "outside"))
            assert again["metadata"]["uid"] not in bought["outside"]
            world.provision(again)
            world.wait_until_runs("outside")
            world.submit("begun", "l4")
            (begun,) = eventually("it has asked", partial(world.asked, "begun"))

        # And back: the older stack is applied once more.
        _apply_policy(world, older)
        old.start()
        world.provision(begun)
        world.wait_until_runs("begun")
        (left,) = world.asked("begun")
        assert left["metadata"]["uid"] == begun["metadata"]["uid"]
        assert _all_run(world, ["running", "asking", *together])
        assert len(world.asked("running")) == 1


def test_a_rollout_hands_the_gangs_over_with_the_lease(world: World, older: Path) -> None:
    _apply_policy(world, older)
    with world.manager(name="leading", code=older, elects=True) as old:
        world.submit("gang", "l4")
        (request,) = eventually("it has asked", partial(world.asked, "gang"))
        with world.manager(name="following", elects=True, wait=False):
            old.stop()
            world.provision(request)
            world.wait_until_runs("gang")
            (left,) = world.asked("gang")
            assert left["metadata"]["uid"] == request["metadata"]["uid"]


@pytest.fixture(autouse=True)
def _policy_of_now(world: World) -> Iterator[None]:
    yield
    _apply_policy(world, ROOT)


def _apply_policy(world: World, code: Path) -> None:
    """The policy and its definition, as the program of that checkout writes them."""
    if (code / "muster").is_dir():
        names = {"root": "muster.", "render": "muster.render", "config": "muster.config"}
    else:  # The older build has no package around its folders; an installed Muster must not stand in for it.
        names = {"root": "", "render": "model.render", "config": "stackconfig"}
    command = [sys.executable, "-c", _RENDER.format(**names), str(STACK)]
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    made = subprocess.run(command, env=environment, capture_output=True, check=True)
    definition, policy = json.loads(made.stdout)
    world.plane.define([definition])
    apply(world.plane, policy)


def _all_run(world: World, jobs: list[str]) -> bool:
    return all(world.holds(name, "Admitted") for name in jobs)
