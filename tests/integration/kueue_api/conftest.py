"""The real Kueue with its webhooks on a real API server, as processes of this host: no node, no container."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.model import gangpolicy, names, queuetree
from muster.model.gangpolicy import OnStaggered, OnStockOut
from muster.model.kueue import UNCOUNTED
from muster.model.stack import Scheduler, Stack
from muster.render import kueue
from tests import built, envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import definitions
from tests.integration.accounts import RIGHTS, limits, registered
from tests.integration.kueue_api.cloud import RIVALS, Cloud
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import STACK, World
from tests.integration.pod_autoscaler import scheduler
from tests.integration.rights import STRICT_OWNERS, audited
from tests.integration.tenancy import crds
from tests.unit.model.kueue_files import everything

PLACEHOLDERS = STACK.with_name("placeholders.yaml")
_CHART = "kueue-chart"
_KUBERAY = "kuberay-config"
_NEEDED = (("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd", _CHART))
_WORLD = (
    ("etcd", "kube-apiserver", "kueue", "kube-controller-manager", "kuberay", "kube-scheduler"),
    (*_NEEDED[1], _KUBERAY),
)
_COLLECTORS = ("garbage-collector-controller", "namespace-controller")


@pytest.fixture(scope="package")
def kueue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that Kueue stands in front of, with every gate on that a stack can switch on."""
    programs = built.programs(*_NEEDED)
    (full, _) = everything()
    config, chart = kueue.manager_config(full), programs.assets[_CHART]
    folder = tmp_path_factory.mktemp("kueue-api")
    with (
        envtest.control_plane(folder, programs, kinds=definitions(programs)) as plane,
        envtest.kueue(plane, programs, config=config, chart=chart),
    ):
        yield plane


@contextmanager
def world_of(
    stack: Stack,
    folder: Path,
    *,
    rights: Stack | None = None,
    user: str | None = None,
    needs_accounts: bool = False,
    kinds: Sequence[dict[str, Any]] = (),
) -> Iterator[World]:
    """A plane of its own for this stack, with Kueue and its webhooks. Nothing of the stack is there yet but
    the rights of our controller: those of `rights`, or all of a stack with ProvisioningRequests. `user`: whom
    Kueue acts as, with every right; the administrator by default. `needs_accounts`: whether a pod needs a
    ServiceAccount that exists. `kinds`: definitions of others, which are there when Kueue starts.
    """
    config = kueue.manager_config(stack)
    with bare_of(folder, rights=rights, needs_accounts=needs_accounts, kinds=kinds) as (plane, programs):
        chart = programs.assets[_CHART]
        if user:
            apply(plane, every_right(user))
        with envtest.kueue(plane, programs, config=config, chart=chart, user=user) as process:
            yield World(plane, stack, process, programs)


def every_right(user: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user.rpartition(":")[2]},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


@contextmanager
def bare_of(
    folder: Path,
    *,
    rights: Stack | None = None,
    needs_accounts: bool = False,
    kinds: Sequence[dict[str, Any]] = (),
) -> Iterator[tuple[ControlPlane, Programs]]:
    """A plane of its own with all kinds on it, ours too, and what collects garbage and ends namespaces."""
    programs = built.programs(*_WORLD)
    flags = (STRICT_OWNERS, *audited(folder, Scheduler.KUEUE))
    kinds = [
        *kinds,
        *definitions(programs),
        *(gangpolicy.crd(), queuetree.crd(), crds.compute_domains()),
        *programs.kinds(_KUBERAY, below="crd/bases"),
    ]
    with envtest.control_plane(
        folder, programs, kinds=kinds, flags=flags, needs_accounts=needs_accounts
    ) as plane:
        stack = rights or _with_every_right(load(STACK))
        for item in (*(each for each in registered(stack) if each["kind"] in RIGHTS), *limits(stack)):
            apply(plane, item)
        with envtest.controllers(plane, programs, _COLLECTORS):
            yield plane, programs


def _with_every_right(stack: Stack) -> Stack:
    """Tests change the policy on the way: the rights are those of a stack that holds and steers, and whose
    gangs get ComputeDomains.
    """
    policy = replace(
        stack.gang_admission.policy, on_staggered=OnStaggered.HOLD, on_stock_out=OnStockOut.NEXT_FLAVOR
    )
    options = replace(stack.kueue, device_classes={names.CHANNEL_DEVICE_CLASS: UNCOUNTED})
    return replace(stack, gang_admission=replace(stack.gang_admission, policy=policy), kueue=options)


@pytest.fixture(scope="package")
def _shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(load(STACK), tmp_path_factory.mktemp("world")) as made:
        made.begin()
        yield made


@pytest.fixture
def world(_shared_world: World) -> Iterator[World]:
    """The shared plane, without work. Who removes something of the stack takes a plane of its own."""
    yield _shared_world
    _shared_world.clear()


@pytest.fixture(scope="package")
def _placed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Its gangs ask by placeholders, and the real scheduler places pods."""
    with placed_world(load(PLACEHOLDERS), tmp_path_factory.mktemp("placeholders")) as made:
        yield made


@contextmanager
def placed_world(stack: Stack, folder: Path) -> Iterator[World]:
    """A plane of its own for a stack whose gangs ask by placeholders. The real scheduler places pods."""
    with world_of(stack, folder, rights=stack) as made:
        made.begin()
        for item in registered(stack):
            if item["kind"] == "PriorityClass":
                apply(made.plane, item)
        apply(made.plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RIVALS}})
        jobs = envtest.controllers(made.plane, made.programs, ("job-controller",))
        with scheduler(made.plane, made.programs), jobs:
            yield made


@pytest.fixture
def cloud(_placed: World) -> Iterator[Cloud]:
    """One without stock, on the shared plane of gangs by placeholders."""
    made = Cloud(_placed.plane, world=_placed)
    yield made
    made.clear()
