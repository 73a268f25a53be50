"""A tenant that is a program: drawn sequences of what a tenant may send, on the real Kueue and KubeRay.

On demand: `make tenant STEPS=500`, with `MUSTER_TENANT_SEED=N` to draw other ones. After each step the oracle
asks whether the team has more devices than Kueue has reserved for it, for longer than its controllers need to
end them, and whether a controller has ended. At the end of a sequence it asks whether another team gets its
guarantee, and whether an administrator can stop what runs. The steps of the shortest sequence that failed are
in the file that `MUSTER_TENANT_FILE` names.

`MUSTER_TENANT_WITHOUT=backstop,planted` shows that the oracle notices: without the backstop, each hole of
`PLANTED` has to be noticed. `MUSTER_TENANT_WITHOUT=planted` shows that the backstop ends what they let run. A
policy or `policy:words of the message of a rule` may be named in place of `planted`, and `none` for no hole.
bench/results/tenant.md has after how many requests each is noticed.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from muster.model import names
from tests.integration.kueue_api.tenant_ground import (
    AT,
    GUARANTEE,
    HOLD,
    HOLES,
    NODES,
    WORK,
    Ground,
    Noticed,
    ground_of,
    named,
    sized,
    work_of,
)
from tests.integration.kueue_api.works import plain, work
from tests.integration.kueue_api.world import MERGE
from tests.integration.tenancy.attack import merged
from tests.integration.tenancy.cluster import Answer

Object = dict[str, Any]
Change = tuple[str, int]
Item = tuple[str, str, Object]
"""The path of an object, its kind, and itself."""


def _both(one: Object, other: Object) -> Object:
    """Two merge patches in one."""
    whole = dict(one)
    for key, value in other.items():
        old = whole.get(key)
        whole[key] = _both(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return whole


STEPS: Final = int(os.environ.get("MUSTER_TENANT_STEPS", "0"))
SEED: Final = int(os.environ.get("MUSTER_TENANT_SEED", "0"))
A_ROUND: Final = 10
"""Sequences of one search: after ten Hypothesis changes what it drew, and hardly draws anew."""
A_SEQUENCE: Final = 8
"""Steps of one sequence, after which the team's work is removed."""
KEPT_IN: Final = Path(os.environ.get("MUSTER_TENANT_FILE", "/tmp/muster-tenant.json"))
_ELASTIC_KINDS: Final = ("RayCluster", "Job")
_ELASTIC: Final = {"metadata": {"annotations": {names.ELASTIC_JOB: "true"}}}
_INVALID: Final = {"spec": {"headGroupSpec": {"rayStartParams": {"labels": "a=b"}}}}

# What a tenant may try on what it sees, by kind and on any. Most of it is refused.
_RAY: Final[tuple[Object, ...]] = (
    _INVALID,
    {"spec": {"rayVersion": "none"}},
    {"spec": {"gcsFaultToleranceOptions": HOLD}},
    {"spec": {"gcsFaultToleranceOptions": None}},
    {"spec": {"enableInTreeAutoscaling": True}},
    {"metadata": {"annotations": {"ray.io/ft-enabled": "false"}}},
    {"metadata": {"annotations": {"ray.io/enable-serve-service": "true"}}},
    {"metadata": {"labels": {names.KUBERAY_ORIGIN_LABEL: None}}},
)
_OF_KIND: Final[dict[str, tuple[Object, ...]]] = {
    "RayCluster": _RAY,
    "RayJob": (
        {"spec": {"backoffLimit": -1}},
        {"spec": {"runtimeEnvYAML": ": :"}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"ttlSecondsAfterFinished": 100000}},
        {"spec": {"shutdownAfterJobFinishes": False}},
        *({"spec": {"rayClusterSpec": change["spec"]}} for change in _RAY[:3]),
    ),
    "LeaderWorkerSet": ({"spec": {"leaderWorkerTemplate": {"size": 4}}},),
    "Pod": ({"spec": {"schedulingGates": None}},),
    "Secret": ({"data": None}, {"data": {"auth_token": None}}),
}
_OF_ANY: Final[tuple[Object, ...]] = (
    {"spec": {"suspend": False}},
    {"spec": {"suspend": True}},
    {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
    _ELASTIC,
    {"metadata": {"labels": {names.QUEUE_LABEL: None}}},
    {"metadata": {"labels": {names.QUEUE_LABEL: "none"}}},
    {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "none"}}},
    {"metadata": {"labels": {"kueue.x-k8s.io/managed": None, "kueue.x-k8s.io/podset": "none"}}},
    {"metadata": {"finalizers": ["example.com/kept"]}},
    {"metadata": {"ownerReferences": None}},
)
_DELETE: Final[Object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
_DELETIONS: Final[tuple[Object, ...]] = (
    {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Background", "gracePeriodSeconds": 100},
    {},
)
_STARTED: Final = {"spec": {"suspend": False}}
# What work may be created with so that no queue starts it, or stops it.
_STARTS: Final[tuple[Object, ...]] = (
    {"spec": {"submissionMode": "InteractiveMode"}},
    _both(_STARTED, {"metadata": {"labels": {names.QUEUE_LABEL: None}}}),
    _both(_STARTED, {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "none"}}}),
    _both(_STARTED, {"metadata": {"annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "none"}}}),
    _both(_STARTED, {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}),
    _STARTED,
)
_ENDED: Final = [
    {
        "type": kind,
        "status": "True",
        "reason": "Mine",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for kind in ("Complete", "Completed", "Finished")
]
_MORE: Final = {names.GPU_RESOURCE: "4"}
_PARTS: Final[tuple[tuple[str, Object], ...]] = (
    ("status", {"status": {"conditions": _ENDED}}),
    ("status", {"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}),
    ("status", {"status": {"phase": "Succeeded", "state": "suspended"}}),
    ("scale", {"spec": {"replicas": 4}}),
    (
        "resize",
        {"spec": {"containers": [{"name": "work", "resources": {"limits": _MORE}}]}},
    ),
)
_number: Final = st.integers(0, NODES)
# A field, a size, or an owner: which of the team's work, and whether as its controller.
_field: Final = st.tuples(st.just("field"), st.integers(0, 99))
_change: Final = st.one_of(
    *(_field, _field, _field, _field),
    st.tuples(st.just("size"), _number),
    st.tuples(st.sampled_from(("owner", "controller")), _number),
)
# Merged into one request.
_changes: Final = st.lists(_change, min_size=1, max_size=2)
_TENANTS: Final = (names.MEMBER_ACCOUNT, "trusted")
_tenant: Final = st.sampled_from(_TENANTS)
_kind: Final = st.sampled_from((*WORK[:2], *WORK, *AT))
_which: Final = st.integers(0, 9)
# What is above the team's quota is borrowed, and taken back at the end. Half of it leaves quota for more.
_count: Final = st.one_of(st.integers(1, GUARANTEE), st.integers(1, 2 * GUARANTEE))


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the first steps of a sequence are made of. `which`: how often that kind of steps was taken."""

    tenant: str
    which: int
    kind: str
    count: int
    fault_tolerant: bool

    @classmethod
    def at(cls, turn: int, *, which: int) -> "Drawn":
        """Not by Hypothesis, whose first sequences are mostly made of the smallest values."""
        random = Random(f"{SEED} {turn}")
        return cls(
            tenant=random.choice(_TENANTS),
            which=which,
            kind=random.choice((*WORK[:2], *WORK)),
            count=random.randint(1, random.choice((GUARANTEE, 2 * GUARANTEE))),
            fault_tolerant=random.random() < 0.5,
        )


class Tenant(RuleBasedStateMachine):
    """What a tenant's program does. `ground` is set by the test."""

    ground: Ground

    def __init__(self) -> None:
        super().__init__()
        self.ground.clear()
        self.ground.steps.clear()
        self._created = 0
        self._holds = True

    @initialize(number=st.integers(0, 2**16))
    def begin(self, number: int) -> None:
        """What is near to the rules whose turn it is."""
        turn = self.ground.turn(number)
        near = (
            self._starts_by_itself,
            self._loses_its_owner,
            self._is_changed_while_it_waits,
            self._is_given_an_owner,
            self._is_made_for_another,
            self._is_spoiled,
            self._grows_and_shrinks,
            self._borrows,
        )
        which, of = divmod(turn, len(near))
        near[of](Drawn.at(turn, which=which))

    def _runs(
        self, kind: str, count: int, *, fault_tolerant: bool = False, elastic: bool = False
    ) -> Item | None:
        """New work of a member, once it runs, or in twenty seconds. None where it is refused."""
        end, running = time.monotonic() + 20, self.ground.running() + count
        if not self._create(names.MEMBER_ACCOUNT, kind, count, fault_tolerant, elastic=elastic).is_allowed:
            return None
        while self.ground.running() < running and time.monotonic() < end:
            time.sleep(0.2)
        name = f"work-{self._created}"
        existing = self.ground.existing(kind)
        item = next((item for _, item in existing if item["metadata"]["name"] == name), None)
        return (self.ground.path(kind, name), kind, item) if item else None

    def _borrows(self, drawn: Drawn) -> None:
        elastic = drawn.which % 2 == 0
        self._runs(drawn.kind, drawn.count, fault_tolerant=drawn.fault_tolerant, elastic=elastic)

    def _starts_by_itself(self, drawn: Drawn) -> None:
        otherwise = _STARTS[drawn.which % len(_STARTS)]
        kind = "RayJob" if otherwise is _STARTS[0] else drawn.kind
        self._create(drawn.tenant, kind, drawn.count, drawn.fault_tolerant, otherwise=otherwise)

    def _loses_its_owner(self, drawn: Drawn) -> None:
        if item := self._runs(("Job", "RayCluster", drawn.kind)[drawn.which % 3], drawn.count):
            how = _DELETIONS[drawn.which // 3 % len(_DELETIONS)]
            self.ground.ask(drawn.tenant, "DELETE", item[0], _DELETE | how)

    def _is_changed_while_it_waits(self, drawn: Drawn) -> None:
        """Elastic work whose pods are others than those that Kueue read, once there is quota for it."""
        first = self._runs("Job", 2 * GUARANTEE)
        self._create(names.MEMBER_ACCOUNT, "RayCluster", GUARANTEE, False, elastic=True)
        if item := self._one("RayCluster", 0):
            change = {"spec": _with_other_pods(item[2]["spec"], gated=drawn.which % 2 == 0)}
            self.ground.ask(drawn.tenant, "PATCH", item[0], change, kind=MERGE)
        if first:
            self.ground.ask(drawn.tenant, "DELETE", first[0], _DELETE | _DELETIONS[1])

    def _is_given_an_owner(self, drawn: Drawn) -> None:
        """Work that borrows, given to work that does not."""
        parent = self._runs(WORK[drawn.which % 2], 1)
        if parent and (item := self._runs("Job", 2 * GUARANTEE - 1)):
            for controls in (False, True):
                body = _owned_by(parent[1], parent[2], controls=controls)
                self.ground.ask(drawn.tenant, "PATCH", item[0], body, kind=MERGE)

    def _is_spoiled(self, drawn: Drawn) -> None:
        self._runs("RayCluster", drawn.count, fault_tolerant=drawn.fault_tolerant)
        self.spoil(drawn.tenant, 0, _RAY[drawn.which % len(_RAY)])

    def _grows_and_shrinks(self, drawn: Drawn) -> None:
        kind = _ELASTIC_KINDS[drawn.which % 2]
        if item := self._runs(kind, drawn.count, elastic=True):
            for count in (NODES, NODES - 1 if drawn.fault_tolerant else drawn.count):
                change = {"spec": sized(kind, item[2], count)}
                self.ground.ask(drawn.tenant, "PATCH", item[0], change, kind=MERGE)

    def _is_made_for_another(self, drawn: Drawn) -> None:
        """The cluster of a RayJob, in another size and perhaps without its owner."""
        self._runs("RayJob", drawn.count)
        if item := self._one("RayCluster", 0):
            change: Object = {"spec": sized(item[1], item[2], NODES)}
            if drawn.which % 2:
                change["metadata"] = {"ownerReferences": None}
            self.ground.ask(drawn.tenant, "PATCH", item[0], change, kind=MERGE)

    @rule(tenant=_tenant, kind=st.sampled_from((*WORK, "Pod")), count=_count, fault_tolerant=st.booleans())
    def create(self, tenant: str, kind: str, count: int, fault_tolerant: bool) -> None:
        self._create(tenant, kind, count, fault_tolerant)

    @rule(tenant=_tenant, kind=st.sampled_from(("Job", "Pod", "Service")), which=_which)
    def pretend(self, tenant: str, kind: str, which: int) -> None:
        """What KubeRay could take for the head of a cluster, or for the Service of its head."""
        if clusters := self.ground.existing("RayCluster"):
            _, cluster = clusters[which % len(clusters)]
            self._create(tenant, kind, 0, False, head_of=cluster["metadata"]["name"])

    def _create(
        self,
        tenant: str,
        kind: str,
        count: int,
        fault_tolerant: bool,
        *,
        head_of: str = "",
        elastic: bool = False,
        otherwise: Object | None = None,
    ) -> Answer:
        self._created += 1
        body = _head(kind, head_of) if head_of else work_of(kind, count, fault_tolerant=fault_tolerant)
        body = named(body, f"work-{self._created}")
        body["metadata"]["labels"][names.PRIORITY_LABEL] = "dev"
        if elastic and kind in _ELASTIC_KINDS:
            body = _both(body, _ELASTIC)
        body = _without_nulls(_both(body, otherwise or {}))
        return self.ground.ask(tenant, "POST", self.ground.path(kind), body)

    @rule(tenant=_tenant, kind=_kind, which=_which, changes=_changes)
    def patch(self, tenant: str, kind: str, which: int, changes: list[Change]) -> None:
        if item := self._one(kind, which):
            self.ground.ask(tenant, "PATCH", item[0], self._change(item, changes), kind=MERGE)

    @rule(tenant=_tenant, kind=_kind, which=_which, changes=_changes)
    def put(self, tenant: str, kind: str, which: int, changes: list[Change]) -> None:
        if item := self._one(kind, which):
            self.ground.ask(tenant, "PUT", item[0], merged(item[2], self._change(item, changes)))

    @rule(tenant=_tenant, which=_which, change=st.sampled_from(_RAY))
    def spoil(self, tenant: str, which: int, change: Object) -> None:
        """A cluster that KubeRay may no longer take for valid, or fail to stop."""
        if clusters := self.ground.existing("RayCluster"):
            kind, cluster = clusters[which % len(clusters)]
            path = self.ground.path(kind, cluster["metadata"]["name"])
            self.ground.ask(tenant, "PATCH", path, change, kind=MERGE)

    @rule(tenant=_tenant, which=_which, changes=_changes, then=_changes)
    def patch_twice(self, tenant: str, which: int, changes: list[Change], then: list[Change]) -> None:
        """The same object of the team's work, before its controllers have done much."""
        if item := self._one("any", which):
            for each in (changes, then):
                self.ground.ask(tenant, "PATCH", item[0], self._change(item, each), kind=MERGE)

    @rule(
        tenant=_tenant,
        which=_which,
        count=st.integers(GUARANTEE, NODES),
        how=st.sampled_from(("elastic", "rigid", "without gates", "larger pods")),
        at_once=st.booleans(),
    )
    def grow(self, tenant: str, which: int, count: int, how: str, at_once: bool) -> None:
        """Work, or what was made for it, so that Kueue lets it run on while new pods start."""
        of = _ELASTIC_KINDS[which % 2]
        if not self.ground.existing(of):
            self._create(names.MEMBER_ACCOUNT, of, 1, False, elastic=True)
        if item := self._one(of, which):
            path, kind, body = item
            larger: Object = {"spec": sized(kind, body, count)}
            first = {"metadata": {"annotations": {names.ELASTIC_JOB: "true" if how == "elastic" else None}}}
            if how in ("without gates", "larger pods"):
                larger = {"spec": _with_other_pods(larger["spec"], gated=how == "larger pods")}
                first = {"spec": _with_other_pods(body["spec"], gated=how == "larger pods")}
            for change in (_both(first, larger),) if at_once else (first, larger):
                self.ground.ask(tenant, "PATCH", path, change, kind=MERGE)

    @rule(tenant=_tenant, which=_which, parent=_number, also=_changes)
    def adopt(self, tenant: str, which: int, parent: int, also: list[Change]) -> None:
        """An owner, and in a second step the same one as the controller."""
        if len(self.ground.existing(*WORK)) == 1:
            self._create(tenant, "RayJob", 1, False)
        if item := self._one("any", which):
            controls = ("controller", parent)
            for changes in ([("owner", parent)], [*also, controls], [controls]):
                self.ground.ask(tenant, "PATCH", item[0], self._change(item, changes), kind=MERGE)

    @rule(tenant=_tenant, kind=_kind, which=_which, part=st.sampled_from(_PARTS))
    def patch_part(self, tenant: str, kind: str, which: int, part: tuple[str, Object]) -> None:
        """A subresource."""
        if item := self._one(kind, which):
            self.ground.ask(tenant, "PATCH", f"{item[0]}/{part[0]}", part[1], kind=MERGE)

    @rule(tenant=_tenant, kind=_kind, which=_which, how=st.sampled_from(_DELETIONS))
    def delete(self, tenant: str, kind: str, which: int, how: Object) -> None:
        if item := self._one(kind, which):
            self.ground.ask(tenant, "DELETE", item[0], _DELETE | how)

    @rule()
    def wait(self) -> None:
        self.ground.settle()

    @invariant()
    def has_no_more_than_its_quota(self) -> None:
        self.ground.taken += 1
        if self.ground.steps:
            self._holds = False
            self.ground.check()
            self._holds = True

    def teardown(self) -> None:
        if self.ground.steps and self._holds:
            self.ground.guarantee()
            self.ground.stop()

    def _one(self, kind: str, which: int) -> Item | None:
        """Its path, its kind and itself. `any`: of the team's work, and of every kind if there is none."""
        for kinds in ((kind,) if kind in AT else (), WORK, tuple(AT)):
            if existing := self.ground.existing(*kinds):
                of, item = existing[which % len(existing)]
                return self.ground.path(of, item["metadata"]["name"]), of, item
        return None

    def _change(self, item: Item, changes: Sequence[Change]) -> Object:
        _, kind, body = item
        whole: Object = {}
        for what, number in changes:
            if what == "field":
                fields = (*_OF_KIND.get(kind, ()), *_OF_ANY)
                part = fields[number % len(fields)]
            elif what == "size":
                part = {"spec": sized(kind, body, number)}
            else:
                part = self._owned(number, controls=what == "controller")
            whole = _both(whole, part)
        return whole

    def _owned(self, parent: int, *, controls: bool) -> Object:
        existing = self.ground.existing(*WORK)
        if not existing:
            return {"metadata": {"ownerReferences": None}}
        kind, above = existing[parent % len(existing)]
        return _owned_by(kind, above, controls=controls)


def _owned_by(kind: str, above: Object, *, controls: bool) -> Object:
    owner = {"apiVersion": AT[kind][0], "kind": kind, "controller": controls}
    owner |= {key: above["metadata"][key] for key in ("name", "uid")}
    return {"metadata": {"ownerReferences": [owner]}}


def _head(kind: str, cluster: str) -> Object:
    """Small, with the labels of this cluster's head."""
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "head", "ray.io/identifier": f"{cluster}-head"}
    if kind == "Job":
        job = work("Job", plain())
        job["spec"]["template"]["metadata"] = {"labels": labels}
        return job
    spec: Object = {"ports": [{"port": 80}]} if kind == "Service" else plain()
    return {"apiVersion": "v1", "kind": kind, "metadata": {"labels": labels}, "spec": spec}


def _with_other_pods(spec: Object, *, gated: bool) -> Object:
    """The workers of a cluster without the gates of elastic work, or with two devices each."""
    groups = json.loads(json.dumps(spec.get("workerGroupSpecs") or ()))
    for group in groups:
        template = group["template"]["spec"]
        if gated:
            more = {names.GPU_RESOURCE: "2"}
            template["containers"][0]["resources"] = {"limits": more, "requests": more}
        else:
            template.pop("schedulingGates", None)
    return {**spec, "workerGroupSpecs": groups} if groups else spec


def _without_nulls(body: Object) -> Object:
    """A merge patch removes what is null; an object that is created has no such field."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in body.items()
        if value is not None
    }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground_of(tmp_path_factory.mktemp("tenant")) as made:
        Tenant.ground = made
        yield made


@pytest.mark.skipif(not STEPS, reason="hours: make tenant STEPS=500")
@pytest.mark.parametrize("hole", HOLES)
def test_a_program_with_a_tenants_rights_gets_no_more_than_its_quota(ground: Ground, hole: str) -> None:
    ground.plant(hole)
    before, refusal = ground.asked, ""
    ground.taken = 0
    try:
        for number in count():
            if ground.taken >= STEPS:
                break
            ground.begin_round()
            run_state_machine_as_test(seed(1000 * SEED + number)(Tenant), settings=_settings())
    except Noticed as noticed:
        refusal = str(noticed)
    finally:
        # The last run of the search is that of the shortest sequence.
        KEPT_IN.write_text(json.dumps(ground.steps, indent=1))
        ended = ground.deleted_without_quota()
        print(f"{hole}: {ground.taken} steps, {ground.asked - before} requests, ", end="")
        print(f"{ended} reports of the backstop, {refusal}")
    assert bool(refusal) == ground.is_noticed


def _settings() -> settings:
    return settings(
        max_examples=A_ROUND,
        stateful_step_count=A_SEQUENCE,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
