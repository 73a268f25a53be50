"""The real KAI on a control plane of its own: only where somebody asks for it (`MUSTER_KAI=1`)."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.local.simulated_cloud import names as cloud
from muster.model.gangpolicy import GangPolicy, RetryPolicy, crd
from muster.model.stack import Stack
from muster.render import kai
from muster.render.gang import gang_policy
from muster.replay.kai_player import PROGRAM
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.process import PROVISIONING_CRD
from tests.integration.ours import Ours
from tests.integration.real_kai import programs
from tests.integration.real_kai.bodies import queue_body
from tests.integration.real_kai.programs import ASSETS, JOBSET_CRD, KAI_CRDS, SWITCH, WANTED, Running
from tests.integration.real_kai.world import PRIORITIES, QUEUES, World, classes_of, clean
from tests.integration.tenancy import crds

_STACK = Path(__file__).resolve().parents[3] / "stacks" / "Pulumi.kai-prod.yaml"
_STRICT = "?fieldManager=muster&force=true&fieldValidation=Strict"


@pytest.fixture(scope="package")
def stack() -> Stack:
    return load(_STACK)


@pytest.fixture(scope="package")
def program() -> Path:
    if not os.environ.get(SWITCH):
        pytest.skip(f"KAI is run on demand: `muster local build --only {PROGRAM}`, then {SWITCH}=1")
    return built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Running]]:
    if not os.environ.get(SWITCH):
        pytest.skip(f"real KAI is run on demand: `muster local build --only kai`, then {SWITCH}=1")
    with kai_plane(tmp_path_factory.mktemp("kai")) as made:
        yield made


@contextmanager
def kai_plane(folder: Path) -> Iterator[tuple[ControlPlane, Running]]:
    found = built.programs(WANTED, ASSETS)
    kinds = [
        *found.kinds(KAI_CRDS),
        *found.kinds(PROVISIONING_CRD),
        *crds.kuberay(found.assets["kuberay-config"] / "default"),
        *found.kinds(JOBSET_CRD, below="crd/bases"),
        crd(),
    ]
    with envtest.control_plane(folder, found, kinds=kinds) as server:
        server.apply(_namespace(cloud.NAMESPACE), f"/api/v1/namespaces/{cloud.NAMESPACE}")
        with programs.running(server, found) as running:
            yield server, running
            assert not running.dead(), running.logs()


@pytest.fixture
def world(plane: tuple[ControlPlane, Running], stack: Stack, tmp_path: Path) -> Iterator[World]:
    """What kai-prod renders, a namespace, a CPU node, and none of our programs yet."""
    server, running = plane
    space = f"team-{secrets.token_hex(3)}"
    server.apply(_namespace(space), f"/api/v1/namespaces/{space}")
    _install(server, [*kai.priority_classes(stack)], PRIORITIES)
    _install(server, [*kai.queues(stack), *_rounds()], QUEUES)
    one = World(server, space, Ours(tmp_path), running)
    one.node("cpu-0")
    try:
        yield one
    finally:
        one.ours.kill_all()
        clean(one)


@pytest.fixture
def policy(stack: Stack) -> GangPolicy:
    """What kai-prod renders, with a retry that a test can wait for."""
    retry = RetryPolicy(base=timedelta(seconds=5), max=timedelta(seconds=10))
    return replace(gang_policy(stack), retry=retry)


@pytest.fixture
def gangs(world: World, policy: GangPolicy) -> World:
    """With our manager and the cloud."""
    world.govern(policy)
    world.offer(stock=32, classes=classes_of(policy))
    world.start_ours()
    return world


def _install(server: ControlPlane, manifests: list[dict[str, Any]], home: str) -> None:
    """Strictly: 0.12's own definitions know every field that we write for 0.17."""
    for manifest in manifests:
        body = dict(json.loads(json.dumps(manifest)))
        path = f"{home}/{body['metadata']['name']}{_STRICT}"
        server.call("PATCH", path, body, content_type="application/apply-patch+yaml")


def _rounds() -> list[dict[str, Any]]:
    """Queues beside the stack's own, for the pods by which a test knows that KAI has looked again."""
    none = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
    return [queue_body("rounds-top", none), queue_body("rounds", none, parent="rounds-top")]


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
