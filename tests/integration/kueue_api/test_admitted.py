"""What `muster check` admits of work that others published starts whole, with the real controllers, as a
member of a team submits it: the policies are in force, nodes are as the stack's pools have them, and they
come when they are asked for.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pytest
import yaml

from muster.check.admission import Admission
from muster.check.demands import demands
from muster.model import names
from muster.model.ray import RayAuth
from muster.model.work import BY_KIND, WorkKind, value_at
from tests.envtest import ControlPlane, path_of
from tests.integration.kueue_api.cloud import Cloud
from tests.integration.kueue_api.tenant_ground import TEAM, Ground, ground_of
from tests.integration.kueue_api.world import PODS, REQUESTS, WORKLOADS, holds
from tests.integration.pod_autoscaler import make_node
from tests.integration.tenancy.samples import folders, in_queue, samples
from tests.unit.check.public_work import admission as admission_of
from tests.unit.check.public_work import cases

Object = dict[str, Any]

_EACH_KIND: Final = (
    "jobs: Job torchrun",
    "kubeflow: JobSet driver",
    "kubeflow: JobSet oneslice",
    "ray: RayJob tp16",
    "serving: Deployment bare",
    "serving: LeaderWorkerSet sglang",
    "serving: StatefulSet parallel",
)
# Their operators are not built here, and a CronJob makes Jobs.
_NOT_RUN: Final = ("PyTorchJob", "MPIJob", "CronJob")
# A volume, nodes with Workload Identity, and another Kueue (known issue trainjob-flux).
_LACKING: Final = (
    "ray-cluster.persistent-redis.yaml: StatefulSet redis",
    "ray-cluster.gke-bucket.yaml: RayCluster raycluster-mini",
    "flux/flux-interactive.yaml: TrainJob lammps-flux-interactive",
    "flux/lammps-train-job.yaml: TrainJob lammps-flux",
)
# Warns of labels that no pool is known to have: such work may wait for other nodes.
_LABELS: Final = "muster-node-labels"
_LABELS_OF_KUBELETS: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_RUNTIME: Final = "manifests/base/runtimes/torch_distributed.yaml"


@dataclass(frozen=True, slots=True)
class Published:
    """Work that was admitted to a stack, as it is submitted."""

    name: str
    stack: str
    body: Object

    @property
    def kind(self) -> WorkKind:
        return BY_KIND[self.body["kind"]]

    @property
    def at(self) -> str:
        return f"{self.kind.api}/namespaces/{TEAM}/{self.kind.resource}"

    @property
    def pods(self) -> int:
        """Those of all its gangs."""
        if self.body["kind"] == "TrainJob":  # What its runtime counts is in no figure.
            return int(value_at(self.body, "spec.trainer.numNodes") or 1)
        of = admission(self.stack)
        gangs = [value_at(self.body, pods.gangs) for pods in self.kind.pods if pods.gangs]
        times = next((each for each in gangs if each is not None), 1)
        return int(times) * sum(each.pods for each in demands(of, of.review(self.body).object))


@cache
def admission(name: str) -> Admission:
    """That of published work, of a stack that takes Ray's work as it was published."""
    of = admission_of(name, team=TEAM)
    return Admission(replace(of.stack, ray=replace(of.stack.ray, auth=RayAuth.PREFERRED)), TEAM)


def admitted(listed: Iterable[tuple[str, str, Object]]) -> Iterator[Published]:
    """Of names, stacks and objects, with what `--fix` writes."""
    for name, stack, written in listed:
        if written["kind"] in BY_KIND and written["kind"] not in _NOT_RUN and name not in _LACKING:
            body = admission(stack).fixed(written)
            answer = admission(stack).review(body)
            if answer.is_admitted and _LABELS not in {each.by for each in answer.findings}:
                yield Published(name, stack, body)


@dataclass(slots=True, kw_only=True)
class Fleet(Cloud):
    """Nodes as the pools of a stack have them, for pods that wait and for requests."""

    of: Admission

    def step(self) -> None:
        Cloud.step(self)
        for request in self.world.items(REQUESTS):
            if not holds(request, "Provisioned"):
                self.world.provision(request, make=self._make)

    def make_node(self, name: str, pool: str) -> None:
        self._make(self.plane, name, pool)

    def _make(self, plane: ControlPlane, name: str, pool: str, *, lease: str = "") -> None:
        described = self.of.stack.pool(pool)
        assert described is not None
        (flavor,) = (each for each in self.of.policy.flavors if each.name == described.flavor)
        labels = {key: value.split(",")[0] for key, value in flavor.node_labels.items()}  # One of several.
        for zone in flavor.zones[:1]:
            region = re.match(r"[a-z]+-[a-z]+-?\d", zone)
            labels |= {"topology.kubernetes.io/region": region.group()} if region else {}
        make_node(
            plane,
            name,
            pool,
            lease=lease,
            gpus=described.slots_per_node,
            device=described.device,
            labels=labels | _LABELS_OF_KUBELETS | {"kubernetes.io/hostname": name},
            size={**flavor.per_node, "pods": "110"},
        )


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The stack of this name, and the controllers of all kinds that it is given."""
    name, *brings = request.param
    of = admission(name).stack
    folder = tmp_path_factory.mktemp(name)
    with ground_of(folder, has_backstop=False, brings=brings, of=of) as made:
        made.plant("")
        yield made


@pytest.mark.parametrize("ground", [("gke", "jobset", "lws")], indirect=True, ids=str)
@pytest.mark.parametrize("name", _EACH_KIND)
def test_work_of_each_kind_starts_whole(ground: Ground, name: str) -> None:
    (work,) = admitted((each.name, each.stack, each.body) for each in cases() if each.name == name)
    starts_whole(ground, work)


@pytest.mark.parametrize(
    "ground", [(stack, "jobset", "lws", "trainer") for stack in ("gke", "eks")], indirect=True, ids=str
)
def test_all_published_work_starts_whole(ground: Ground) -> None:
    stack = ground.stack.cluster.provider.value
    listed = [(each.name, each.stack, each.body) for each in cases() if each.stack == stack]
    for publisher in folders() if stack == "gke" else ():
        listed += [(each.name, stack, in_queue(each, admission(stack))) for each in samples(publisher)]
    if "trainer" in folders():
        body = yaml.safe_load((folders()["trainer"].parent / _RUNTIME).read_text())
        ground.world.plane.apply(body, path_of(body))
    faults = {}
    for work in admitted(listed):
        try:
            starts_whole(ground, work)
        except AssertionError as fault:
            faults[work.name] = str(fault)[:2000]
        print(f"{work.name}: {'not ' if work.name in faults else ''}whole, {work.pods} pods", flush=True)
    assert not faults


def starts_whole(ground: Ground, work: Published) -> None:
    world, of = ground.world, admission(work.stack)
    fleet = Fleet(world.plane, world=world, of=of)
    fleet.stock |= {pool.name: pool.max_nodes for pool in of.stack.pools}
    answer = ground.tenants[names.MEMBER_ACCOUNT].send("POST", work.at, work.body)
    assert answer.is_allowed, answer.message
    started: set[str] = set()

    def is_whole() -> bool:
        bound = [each["metadata"]["name"] for each in world.items(PODS) if each["spec"].get("nodeName")]
        has_begun = any(holds(each, "Admitted") for each in world.items(WORKLOADS))
        assert has_begun or not bound, "pods start before their gang is admitted"
        started.update(bound)
        return len(started) >= work.pods and has_begun

    try:
        fleet.eventually(f"all {work.pods} pods have a node", is_whole)
    finally:
        world.delete(f"{work.at}/{answer.body['metadata']['name']}")
        ground.clear()
        for node in fleet.nodes():
            world.delete(f"/api/v1/nodes/{node['metadata']['name']}")
