"""Only a gang that was idle at every look is stopped: drawn histories of looks, and of what exporters say."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry

from muster.check.policies import Policies, Question
from muster.config import parse
from muster.config.document import ConfigError
from muster.config.edit import template
from muster.controller.gangs.indexes import BY_REQUEST, request_of
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import POD, Condition, Pod
from muster.controller.kube.client import Client, Listing, Selection
from muster.controller.kube.errors import Conflict, NotFound, Status, TransportError
from muster.controller.kube.resource import Key, Object, ObjectMeta, OwnerReference, Resource
from muster.controller.kueue.idle_gangs import (
    BREAK,
    PERIOD,
    Exporter,
    ExporterStatus,
    IdleGangs,
    Idleness,
    Moment,
    Reading,
    judge,
)
from muster.controller.kueue.indexes import BY_WORKLOAD, workload_of
from muster.controller.kueue.objects import (
    WORKLOAD,
    CheckState,
    PodSetUpdate,
    ReclaimablePod,
    Workload,
    WorkloadStatus,
)
from muster.controller.runtime.events import EventRecorder, Reference
from muster.model import names
from muster.model.clusters import Provider
from muster.model.gangpolicy import GangPolicy, IdleAction, IdlePolicy, from_spec
from muster.model.programs import EXPORTERS
from muster.model.stack import Stack
from muster.render import gang as rendered
from muster.render import tenancy
from tests.length import examples
from tests.unit.admission.gang_world import assignment, pod_spec, workload
from tests.unit.controller_runtime.virtual import now, virtual
from tests.unit.gangs.cached import cached

replace = msgspec.structs.replace
START: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
RULE: Final = IdlePolicy(action=IdleAction.SUSPEND)
AFTER, NOTICE, KEEP = (each.total_seconds() for each in (RULE.after, RULE.notice, RULE.keep))
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
ENGINE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def moment(seconds: float) -> Moment:
    return Moment(seconds, START + timedelta(seconds=seconds))


@pytest.mark.parametrize("seed", range(examples(1000)))
def test_a_stop_follows_unbroken_idleness_a_notice_and_no_word_of_the_owner(seed: int) -> None:
    """Judged by the whole history of looks, where the code remembers two moments."""
    draw = random.Random(seed)
    flaws = draw.choice((0.0, 0.002, 0.02, 0.2))
    keep_until = draw.choice((None, None, moment(draw.uniform(0, 12 * 3600)).at))
    action = draw.choice((IdleAction.SUSPEND, IdleAction.SUSPEND, IdleAction.REPORT))
    rule = IdlePolicy(action=action)
    looks: list[tuple[float, Reading]] = []
    state: Idleness | None = None
    at = 0.0
    for _ in range(draw.choice((*(70,) * 8, *(90,) * 8, 330))):
        at += draw.choice((BREAK + 1, 400.0)) if draw.random() < flaws else draw.uniform(50, 70)
        flaw = draw.choice((Reading.BUSY, Reading.UNKNOWN))
        looks.append((at, flaw if draw.random() < flaws else Reading.IDLE))
        state, stops = judge(state, looks[-1][1], rule, now=moment(at), keep_until=keep_until)
        assert stops == (_stops(looks, keep_until) and action is IdleAction.SUSPEND)
        if stops:
            return


def _stops(looks: Sequence[tuple[float, Reading]], keep_until: datetime | None) -> bool:
    run: list[float] = []
    for at, reading in reversed(looks):
        if reading is not Reading.IDLE or (run and run[-1] - at > BREAK):
            break
        run.append(at)
    run.reverse()
    noticed = next((at for at in run if at - run[0] >= AFTER), None)
    if noticed is None or noticed == run[-1]:
        return False
    kept = 0.0 if keep_until is None else (keep_until - START).total_seconds()
    return run[-1] >= min(max(noticed + NOTICE, kept), noticed + NOTICE + KEEP)


# What exporters say

GPUS: Final = 4
NODES: Final = ("node-a", "node-b")
GANG: Final = Key("team-a", "gang")


@dataclass(eq=False)
class Plane:
    """A gang of two pods with two GPUs each, and the exporters of their nodes. `spoil` changes pages, by
    address.
    """

    rules: dict[str, IdlePolicy] = field(default_factory=lambda: {"team-a": RULE})
    now: float = 0.0
    busy: float = 0.0
    energy: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    spoil: Callable[[dict[str, str]], None] = lambda _: None
    exporters: list[Exporter] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    fails: bool = False
    refuses: bool = False

    def __post_init__(self) -> None:
        made = workload("gang", {"main": ("h100", 2)})
        update = PodSetUpdate(name="main", annotations={names.CONSUME_ANNOTATION: "muster-request"})
        pod_sets = (replace(made.spec.pod_sets[0], template=_template()),)
        owner = OwnerReference("ray.io/v1", "RayJob", "train", "uid-train", True)
        self.gang = replace(
            made,
            metadata=replace(made.metadata, owner_references=(owner,)),
            spec=replace(made.spec, pod_sets=pod_sets),
            status=WorkloadStatus(
                conditions=(Condition("Admitted", "True"), Condition("QuotaReserved", "True")),
                admission=assignment({"main": ("h100", 2)}),
                admission_checks=(CheckState("muster", "Ready", pod_set_updates=(update,)),),
            ),
        )
        self.exporters = [_exporter(node) for node in NODES]
        self.workloads = cached(WORKLOAD, [self.gang])
        self.metrics = GangMetrics(CollectorRegistry())
        indexes = {BY_REQUEST: request_of, BY_WORKLOAD: workload_of}
        self.pods = cached(POD, [_pod(node) for node in NODES], **indexes)
        self.idle = IdleGangs(
            cast(Client, self),
            workloads=self.workloads,
            pods=self.pods,
            rules=lambda: self.rules,
            has_check=lambda workload: bool(workload.status.admission_checks),
            events=cast(EventRecorder, self),
            metrics=self.metrics,
            leads=lambda: True,
            now=lambda: moment(self.now),
        )

    @property
    def annotations(self) -> dict[str, str]:
        found = self.workloads.get(GANG)
        assert found
        return found.metadata.annotations

    @property
    def is_stopped(self) -> bool:
        return names.STOP_ANNOTATION in self.annotations

    def look(self, *, seconds: float = PERIOD) -> None:
        self.now += seconds
        pages = {}
        for node in NODES:
            for number in (0, 1):
                gpu = f"GPU-{node}-{number}"
                self.energy[gpu] = self.energy.get(gpu, 0.0) + 4_200_000
            pages[_address(node)] = self._page(node)
        self.spoil(pages)

        async def fetch(address: str) -> str:
            if address not in pages:
                raise OSError("no route to host")
            return pages[address]

        asyncio.run(self.idle.look(fetch))

    def looks(self, seconds: float) -> None:
        for _ in range(int(seconds / PERIOD)):
            self.look()

    def _page(self, node: str) -> str:
        lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
        for number in (0, 1):
            gpu = f"GPU-{node}-{number}"
            labels = f'gpu="{number}",UUID="{gpu}",device="nvidia{number}",modelName="NVIDIA H100 80GB HBM3"'
            labels += f',Hostname="{node}",container="work",namespace="team-a",pod="pod-{node}"'
            busy = self.busy if number else 0.0
            lines += [f"{ENERGY}{{{labels}}} {self.energy[gpu]:.0f}", f"{UTIL}{{{labels}}} {busy * 100:.0f}"]
            lines.append(f"{ENGINE}{{{labels}}} {busy:.6f}")
        return "\n".join([*lines, ""])

    # What the code calls

    async def list(self, resource: Resource[Any], selection: Selection) -> Listing[Any]:
        of = {each.namespace: each.label for each in EXPORTERS}
        assert selection.labels == of[selection.namespace]
        found = (each for each in self.exporters if each.metadata.namespace == selection.namespace)
        return Listing(tuple(found), "1")

    async def get(self, resource: Resource[Any], key: Key) -> Any:
        if self.fails:
            raise TransportError("no answer", call="get")
        if key.name != "train":
            raise NotFound(Status(code=404), call="get")
        return Object(metadata=ObjectMeta(name="train", uid="uid-train", annotations=self.notes))

    async def merge_patch(self, resource: Resource[Any], key: Key, body: Any) -> Workload:
        found = self.workloads.get(key)
        assert found
        meta = found.metadata
        if self.refuses or body["metadata"]["resourceVersion"] != meta.resource_version:
            raise Conflict(Status(code=409), call="patch")
        changed = body["metadata"]["annotations"]
        notes = {name: value for name, value in (meta.annotations | changed).items() if value is not None}
        version = str(int(meta.resource_version) + 1)
        after = replace(
            found,
            metadata=replace(meta, annotations=notes, resource_version=version),
            spec=replace(found.spec, active=body.get("spec", {}).get("active", found.spec.active)),
        )
        self.workloads.store.put(after)
        return after

    def event(self, about: Reference, kind: str, *, reason: str, action: str, note: str) -> None:
        if about.kind == "RayJob":
            self.events.append((reason, note))


def _template(gpus: int = 2) -> Any:
    made = workload("other", {"main": ("h100", 1)}).spec.pod_sets[0].template
    return replace(made, spec=pod_spec(gpus))


def _pod(node: str) -> Pod:
    notes = {names.CONSUME_ANNOTATION: "muster-request"}
    meta = ObjectMeta(name=f"pod-{node}", namespace="team-a", uid=f"uid-{node}", annotations=notes)
    return Pod(metadata=meta, spec=replace(pod_spec(2), node_name=node))


def _address(node: str) -> str:
    return f"10.0.0.{NODES.index(node) + 1}"


def _exporter(node: str, *, name: str = "", address: str = "", namespace: str = "gpu-operator") -> Exporter:
    owner = OwnerReference("apps/v1", "DaemonSet", "nvidia-dcgm-exporter", "uid-set", True)
    name = name or f"exporter-{node}"
    return Exporter(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=name, owner_references=(owner,)),
        spec=replace(pod_spec(0), node_name=node),
        status=ExporterStatus(phase="Running", pod_ip=address or _address(node)),
    )


def test_an_idle_gang_gets_a_notice_and_is_stopped_after_it() -> None:
    plane = Plane()
    plane.looks(AFTER + PERIOD)
    assert names.IDLE_SINCE_ANNOTATION not in plane.annotations
    plane.look()
    # The first look has nothing to compare energy with.
    assert plane.annotations[names.IDLE_SINCE_ANNOTATION] == "2026-11-29T12:02:00Z"
    assert plane.annotations[names.IDLE_ENDS_ANNOTATION] == "2026-11-29T12:57:00Z"
    plane.looks(NOTICE - PERIOD)
    assert not plane.is_stopped
    plane.look()
    assert plane.annotations[names.STOP_ANNOTATION] == "idle"
    since = "no GPU of it has done anything since 2026-11-29 12:02 UTC"
    assert [reason for reason, _ in plane.events] == ["GangIdle", "GangIdle"]
    assert plane.events[0][1].startswith(f"{since}; it is stopped at 2026-11-29 12:57 UTC unless one does")
    assert plane.events[1][1] == f"{since}; it is stopped"
    plane.looks(2 * AFTER)  # Until Kueue has evicted it nothing more is said.
    assert len(plane.events) == 2


def test_a_gang_on_a_pool_without_our_check_is_deactivated_by_the_write_that_stops_it() -> None:
    plane = Plane()
    plain = replace(plane.gang.status, admission_checks=())
    meta = replace(plane.gang.metadata, resource_version="2")
    plane.workloads.store.put(replace(plane.gang, metadata=meta, status=plain))
    for pod in list(plane.pods.store):
        whose = replace(pod.metadata, annotations={names.POD_WORKLOAD_ANNOTATION: "gang"})
        plane.pods.store.put(replace(pod, metadata=replace(whose, resource_version="2")))
    plane.looks(AFTER + NOTICE + PERIOD)
    assert names.IDLE_SINCE_ANNOTATION in plane.annotations
    plane.look()
    found = plane.workloads.get(GANG)
    assert found
    assert (found.spec.active, plane.annotations[names.STOP_ANNOTATION]) == (False, "idle")
    assert plane.annotations[names.RETRY_AT_ANNOTATION] == "2026-11-29T12:57:00Z"


def test_work_within_the_notice_cancels_it() -> None:
    plane = Plane()
    plane.looks(AFTER + 5 * PERIOD)
    plane.busy = 0.4
    plane.look()
    assert names.IDLE_SINCE_ANNOTATION not in plane.annotations
    assert [reason for reason, _ in plane.events] == ["GangIdle", "GangNotIdle"]
    plane.busy = 0.0
    plane.looks(AFTER)
    assert not plane.is_stopped


class _Timed(Plane):
    """Without exporters. `asked`: when it asked for them."""

    asked: set[float]

    async def list(self, resource: Resource[Any], selection: Selection) -> Listing[Any]:
        self.asked.add(now())
        return Listing((), "1")


def test_it_looks_as_soon_as_it_has_rules() -> None:
    plane = _Timed(rules={})
    plane.asked = set()

    async def run() -> None:
        looking = asyncio.ensure_future(plane.idle.run())
        await asyncio.sleep(1)
        plane.rules = {"team-a": RULE}
        plane.idle.hear()
        await asyncio.sleep(1)
        plane.idle.hear()  # What has changed are no rules.
        await asyncio.sleep(PERIOD)
        looking.cancel()

    virtual(run())
    assert plane.asked == {1.0, 1.0 + PERIOD}


def test_work_without_gpus_is_no_gang_whose_gpus_are_unknown() -> None:
    plane = Plane()
    (main,) = plane.gang.spec.pod_sets
    spec = replace(plane.gang.spec, pod_sets=(replace(main, template=_template(gpus=0)),))
    meta = replace(plane.gang.metadata, resource_version="2")
    plane.workloads.store.put(replace(plane.gang, metadata=meta, spec=spec))
    plane.look()
    assert plane.metrics.gpu_use.labels(Reading.UNKNOWN)._value.get() == 0


def test_report_says_so_once_and_stops_nothing() -> None:
    plane = Plane(rules={"team-a": IdlePolicy()})
    plane.looks(3 * AFTER)
    assert not plane.is_stopped
    assert plane.events == [("GangIdle", "no GPU of it has done anything since 2026-11-29 12:02 UTC")]


@pytest.mark.parametrize("hours", [2, 1000])
def test_the_owners_word_counts_up_to_the_bound_of_the_stack(hours: int) -> None:
    plane = Plane(notes={names.KEEP_UNTIL_ANNOTATION: (START + timedelta(hours=hours)).isoformat()})
    bound = min(hours * 3600.0, 2 * PERIOD + AFTER + NOTICE + KEEP)
    plane.looks(bound - PERIOD)
    assert not plane.is_stopped
    assert plane.annotations[names.IDLE_ENDS_ANNOTATION] == f"{moment(bound).at:%Y-%m-%dT%H:%M:%SZ}"
    plane.look()
    assert plane.is_stopped


def test_no_answer_about_the_owners_word_stops_nothing() -> None:
    plane = Plane()
    plane.looks(AFTER + 3 * PERIOD)
    plane.fails = True
    plane.looks(AFTER)
    assert not plane.is_stopped


def test_a_notice_that_could_not_be_written_is_none() -> None:
    plane = Plane(refuses=True)
    plane.looks(AFTER + 2 * NOTICE)
    plane.refuses = False
    plane.look()
    assert names.IDLE_SINCE_ANNOTATION in plane.annotations
    plane.looks(NOTICE - PERIOD)
    assert not plane.is_stopped
    plane.look()
    assert plane.is_stopped


def _line(page: str, metric: str, draw: random.Random) -> str:
    return draw.choice([line for line in page.split("\n") if line.startswith(f"{metric}{{")])


def _value(page: str, draw: random.Random, metric: str, value: str) -> str:
    line = _line(page, metric, draw)
    return page.replace(line, f"{line.rpartition(' ')[0]} {value}")


def _without(page: str, draw: random.Random, metric: str) -> str:
    return page.replace(_line(page, metric, draw) + "\n", "")


def _again(page: str, draw: random.Random, metric: str, value: str) -> str:
    return f"{page}{_line(page, metric, draw).rpartition(' ')[0]} {value}\n"


BEFORE_STOP: Final = 23
"""Looks, 165 seconds apart: the first has nothing to compare energy with."""


def test_without_a_flaw_the_look_at_that_time_stops_the_gang() -> None:
    plane = Plane()
    for _ in range(1, BEFORE_STOP):
        plane.look(seconds=165)
    assert not plane.is_stopped
    plane.look(seconds=165)
    assert plane.is_stopped


Flaw = Callable[[str, random.Random], str]
_BAD: Final = ("NaN", "nan", "-1", "101", "+Inf", "", "many")
FLAWS: Final[tuple[Flaw, ...]] = (
    lambda _, __: "",
    lambda page, draw: page[: draw.randrange(len(page) // 2)],
    lambda page, draw: _without(_without(page, random.Random(1), UTIL), random.Random(1), ENGINE),
    lambda page, draw: _without(page, draw, ENERGY),
    lambda page, draw: _value(page, draw, ENERGY, draw.choice(("0", "NaN", "4200000", "-Inf", "x"))),
    lambda page, draw: _value(page, draw, UTIL, draw.choice(_BAD)),
    lambda page, draw: _value(page, draw, ENGINE, draw.choice(("NaN", "7", "-0.5", ""))),
    lambda page, draw: _again(page, draw, draw.choice((UTIL, ENGINE, ENERGY)), draw.choice(("0", "1", "x"))),
    lambda page, draw: _again(page, draw, UTIL, "0").replace('UUID="GPU-', 'UUID="GPU-new-', 1),
    lambda page, draw: page.replace("namespace", draw.choice(("exported_namespace", "pod_namespace"))),
    lambda page, draw: page.replace('pod="pod-', draw.choice(('pod="other-', 'exported_pod="pod-'))),
    lambda page, draw: page.replace(f'UUID="{_uuid(page, 0)}"', f'UUID="{_uuid(page, 1)}"'),
    lambda page, draw: _value(page, draw, UTIL, draw.choice(("1", "2", "100"))),
    lambda page, draw: _value(page, draw, ENGINE, draw.choice(("0.011", "0.5"))),
    lambda page, draw: page.replace("GPU-node", "GPU-newer"),
    lambda page, draw: page.replace(',pod="', ',pod="other",pod="', 1),
    lambda page, draw: "<html>502 Bad Gateway</html>",
)


def _uuid(page: str, number: int) -> str:
    return page.split('UUID="')[1 + 3 * number].split('"')[0]


@pytest.mark.parametrize("seed", range(examples(1000)))
def test_a_signal_that_is_missing_stale_or_contradicts_itself_does_nothing(seed: int) -> None:
    """At the look that would stop the gang; in one of five histories at every eighth before it as well."""
    draw = random.Random(seed)
    plane = Plane()

    def spoil(pages: dict[str, str]) -> None:
        address = draw.choice(sorted(pages))
        flawed = draw.choice(FLAWS)(pages[address], draw)
        assert flawed != pages[address]
        pages[address] = flawed
        if not flawed and draw.random() < 0.5:
            del pages[address]

    is_often = draw.random() < 0.2
    for count in range(1, BEFORE_STOP):
        plane.spoil = spoil if is_often and count % 8 == 0 else lambda _: None
        plane.look(seconds=165)
    assert not plane.is_stopped
    plane.spoil = spoil
    plane.look(seconds=165)
    assert not plane.is_stopped
    assert names.IDLE_SINCE_ANNOTATION not in plane.annotations
    plane.spoil = lambda _: None
    for _ in range(17):
        plane.look(seconds=165)
    assert not plane.is_stopped


def _foreign_node(plane: Plane) -> None:
    """An exporter of another node says that it sees the gang's pods, which work."""
    plane.exporters[0] = replace(plane.exporters[0], spec=replace(pod_spec(0), node_name="node-c"))


def _no_set(plane: Plane) -> None:
    """A pod with the label that no DaemonSet made."""
    owner = OwnerReference("batch/v1", "Job", "exporter", "uid-job", True)
    bare = replace(plane.exporters[0].metadata, owner_references=(owner,))
    plane.exporters[0] = replace(plane.exporters[0], metadata=bare)


def _second(plane: Plane) -> None:
    plane.exporters.append(_exporter(NODES[0], name="another"))


class _Moving(Plane):
    """After each listing an exporter has another address."""

    async def list(self, resource: Resource[Any], selection: Selection) -> Listing[Any]:
        listed = await super().list(resource, selection)
        moved = replace(self.exporters[0].status, pod_ip="10.9.9.9")
        self.exporters[0] = replace(self.exporters[0], status=moved)
        return listed


@pytest.mark.parametrize("forge", [_foreign_node, _no_set, _second])
def test_a_page_that_is_not_the_exporters_of_the_pods_node_has_no_effect(
    forge: Callable[[Plane], None],
) -> None:
    plane = Plane()
    forge(plane)
    plane.looks(2 * (AFTER + NOTICE))
    assert not plane.is_stopped
    assert not plane.events


@pytest.mark.parametrize("operators_answers", [True, False])
def test_where_gke_brings_an_exporter_it_counts_unless_the_gpu_operators_answers(
    operators_answers: bool,
) -> None:
    """The operator's says that the GPUs work."""
    plane = Plane(busy=0.4)
    plane.exporters += [
        _exporter(node, name=f"gke-{node}", address=f"10.1.0.{number}", namespace="gke-managed-system")
        for number, node in enumerate(NODES)
    ]

    def spoil(pages: dict[str, str]) -> None:
        for number, node in enumerate(NODES):
            operators = pages.pop(_address(node))
            pages[f"10.1.0.{number}"] = re.sub(r"(UTIL|ACTIVE)(.*) \S+", r"\1\2 0", operators)
            if operators_answers:
                pages[_address(node)] = operators

    plane.spoil = spoil
    plane.looks(2 * (AFTER + NOTICE))
    assert plane.is_stopped is not operators_answers


def test_a_page_whose_address_has_moved_on_meanwhile_does_not_count() -> None:
    plane = _Moving()
    for _ in range(int(2 * (AFTER + NOTICE) / PERIOD)):
        plane.exporters = [_exporter(node) for node in NODES]
        plane.look()
    assert not plane.is_stopped


@pytest.mark.parametrize("kind", ["elastic", "remote"])
def test_elastic_gangs_are_reported_and_those_of_multikueue_left_alone(kind: str) -> None:
    plane = Plane()
    meta = plane.gang.metadata
    if kind == "elastic":
        meta = replace(meta, annotations={names.ELASTIC_JOB: "true"}, resource_version="2")
    else:
        meta = replace(meta, labels={names.MULTI_KUEUE_ORIGIN: "multikueue"}, resource_version="2")
    plane.workloads.store.put(replace(plane.gang, metadata=meta))
    plane.looks(2 * (AFTER + NOTICE))
    assert not plane.is_stopped
    assert bool(plane.events) is (kind == "elastic")


@pytest.mark.parametrize(("before", "since", "is_stopped"), [(0, 0, True), (1, 0, True), (1, 1, False)])
def test_pods_that_were_done_before_it_was_admitted_are_no_gpus_of_its_admission(
    before: int, since: int, is_stopped: bool
) -> None:
    """Two pods run. It was admitted with two more than are done since."""
    plane = Plane()
    (main,) = plane.gang.spec.pod_sets
    done = (ReclaimablePod("main", before + since),)
    plane.workloads.store.put(
        replace(
            plane.gang,
            metadata=replace(plane.gang.metadata, resource_version="2"),
            spec=replace(plane.gang.spec, pod_sets=(replace(main, count=2 + before),)),
            status=replace(plane.gang.status, reclaimable_pods=done),
        )
    )
    plane.looks(2 * (AFTER + NOTICE))
    assert plane.is_stopped is is_stopped


def test_a_notice_goes_with_the_rule() -> None:
    plane = Plane()
    plane.looks(AFTER + 3 * PERIOD)
    assert names.IDLE_SINCE_ANNOTATION in plane.annotations
    plane.rules.clear()
    plane.look()
    assert names.IDLE_SINCE_ANNOTATION not in plane.annotations


# What a stack makes of it


def _stack(idle: object, more: dict[str, Any]) -> Stack:
    config = yaml.safe_load(template("here", Provider.GKE))["config"]
    config["muster:departments"]["research"]["teams"]["team-a"]["idle"] = idle
    return parse({**config, **more}, source="x")


def test_a_stack_gives_the_rule_to_the_controller_by_queue_and_nothing_without_one() -> None:
    stack = _stack({"action": "suspend", "after": "2h"}, {})
    spec = json.loads(json.dumps(rendered.policy(stack)["spec"]))
    rule = IdlePolicy(action=IdleAction.SUSPEND, after=timedelta(hours=2))
    assert spec["idle"] == {"team-a": {"after": "2h", "notice": "10m", "action": "suspend", "keep": "4h"}}
    read = from_spec(spec)
    assert isinstance(read, GangPolicy)
    assert read.idle == {"team-a": rule}
    assert "idle" not in rendered.policy(_stack(None, {}))["spec"]


@pytest.mark.parametrize(("action", "is_allowed"), [("suspend", True), ("report", False)])
def test_only_where_gangs_are_stopped_may_an_author_ask_to_be_kept(action: str, is_allowed: bool) -> None:
    stack = _stack({"action": action}, {})
    policies = Policies(each for listed in tenancy.policies(stack) for each in listed)

    def is_refused(key: str) -> bool:
        meta = {"name": "j", "namespace": "team-a"}
        job: dict[str, Any] = {"kind": "Job", "spec": {"template": {"spec": {"containers": []}}}}
        group, version, resource, operation = "batch", "v1", "jobs", "UPDATE"
        variables = {
            "object": {**job, "metadata": {**meta, "annotations": {key: "2026-11-29T18:00:00Z"}}},
            "oldObject": {**job, "metadata": meta},
            "request": {
                "operation": operation,
                "resource": {"group": group, "version": version, "resource": resource},
                "userInfo": {"username": "u", "groups": ["system:serviceaccounts:team-a"]},
                "name": "j",
                "namespace": "team-a",
            },
            "namespaceObject": {"metadata": {"name": "team-a", "labels": {names.TEAM_LABEL: "team-a"}}},
            "authorizer": {},
        }
        question = Question(
            group=group, version=version, resource=resource, operation=operation, variables=variables
        )
        return any(f"remove {key} from" in each.message for each in policies.judge(question))

    assert is_refused(names.KEEP_UNTIL_ANNOTATION) is not is_allowed
    assert is_refused(names.STOP_ANNOTATION)


@pytest.mark.parametrize(
    ("idle", "more", "what"),
    [
        ({}, {"muster:scheduler": "kai"}, "looks at gangs, with Kueue alone"),
        ({}, {"muster:gangAdmission": "builtin"}, "looks at gangs, with Kueue alone"),
        ({"after": "1m"}, {}, "must be 5m at least"),
        ({"notice": "10s"}, {}, "must be 5m at least"),
    ],
)
def test_a_rule_that_cannot_work_is_one_clear_error(idle: object, more: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError) as error:
        _stack(idle, more)
    found = [each for each in error.value.violations if ".idle" in each.path]
    assert len(found) == 1
    assert what in found[0].message
