"""What is written for a gang hits what the decision was made from, or nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from muster.controller.gangs.actions import (
    CreatePlaceholders,
    CreateRequest,
    CreateSet,
    CreateTemplates,
    Delete,
    HoldNode,
)
from muster.controller.gangs.assembly import AttemptFailed, Unsatisfiable
from muster.controller.gangs.capacity_claims import CapacityClaim, PodClaim, unpinned_demand
from muster.controller.gangs.create_errors import CreateRejected, NameTaken, failure_of
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.objects import PLACEHOLDER, POD_TEMPLATE, PROVISIONING_REQUEST, Condition
from muster.controller.gangs.requests import ALLOWED_FOR, Requests, StaleDecision
from muster.controller.gangs.retry import RetryHistory
from muster.controller.gangs.templates import Json
from muster.controller.kube.errors import Conflict, Forbidden, Invalid, ServerError
from muster.controller.kube.parallel import AT_ONCE
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import (
    Action,
    Deactivate,
    PatchAnnotations,
    Reactivate,
    SetCheckState,
    State,
)
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.identity import WORKLOAD_UID, WORKLOADS
from muster.controller.kueue.objects import WORKLOAD, Workload, WorkloadStatus
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from muster.model.names import CONSUME_ANNOTATION, SET_LABEL
from tests.unit.admission.gang_world import CHECK, World
from tests.unit.controller_kube.fake_apiserver import FakeApiServer

_SPACE: Final = "team-a"
_KEY: Final = Key(_SPACE, "a")
_AT: Final = ("workloads", *_KEY)
_NOW: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)


_RESERVED: Final = Condition(type="QuotaReserved", status="True")


def _gang() -> Json:
    pod_sets = [{"name": "main", "template": {"spec": {"containers": []}}}]
    meta = {"name": _KEY.name, "namespace": _SPACE, "annotations": {}}
    return {"metadata": meta, "spec": {"podSets": pod_sets}}


class Hands:
    """The executor before a server, with caches that nobody fills."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server, self.client, metrics = server, server.client(), Metrics(CollectorRegistry())
        kinds = (WORKLOAD, PROVISIONING_REQUEST, POD_TEMPLATE, PLACEHOLDER)
        self.caches: dict[Any, Any] = {each: Informer(self.client, each, metrics=metrics) for each in kinds}
        self.seconds = 0.0
        self.leads = True
        self._pending = PendingWorkloads()
        self.requests = Requests(self.client, caches=self.caches, clock=lambda: self.seconds)
        events = EventRecorder(self.client, reporter="test", instance="test", metrics=metrics)
        self.executor = Executor(
            self.client,
            events=events,
            requests=self.requests,
            slice_of=lambda _: "",
            is_current=lambda: self.leads,
            pending=self._pending,
            clock=lambda: _NOW,
        )

    def submit(self) -> None:
        self.server.put("workloads", _gang())

    def pending(self, workload: Workload) -> None:
        """The watch has delivered it with its quota, as it does."""
        held = msgspec.structs.replace(workload, status=WorkloadStatus(conditions=(_RESERVED,)))
        body = msgspec.json.encode(self.server.objects[_AT])
        self._pending.on_event(held, msgspec.Raw(body))

    async def seen(self) -> Workload:
        """The gang as it is now: what a decision is made from."""
        return await self.client.get(WORKLOAD, _KEY)

    def reads(self) -> int:
        return sum(method == "GET" for method, _ in self.server.requests)

    async def run(self, workload: Workload, *actions: Action) -> None:
        await self.executor.run(actions, workload=workload, check=CHECK, flavors={})


@pytest.fixture
async def hands() -> AsyncIterator[Hands]:
    async with FakeApiServer().running() as server:
        made = Hands(server)
        made.submit()
        yield made


@pytest.mark.parametrize(
    "action",
    [
        SetCheckState(state=State.READY, message="", updates=()),
        Deactivate(history=RetryHistory(refused="x")),
        Reactivate(history=RetryHistory()),
        PatchAnnotations(history=RetryHistory(tries=1)),
    ],
    ids=lambda action: type(action).__name__,
)
async def test_a_decision_about_what_has_changed_since_writes_nothing(hands: Hands, action: Action) -> None:
    seen = await hands.seen()
    hands.submit()
    before = dict(hands.server.objects)
    with pytest.raises(Conflict):
        await hands.run(seen, action)
    assert hands.server.objects == before


async def test_a_decision_about_another_gang_of_that_name_writes_nothing(hands: Hands) -> None:
    seen = await hands.seen()
    hands.server.drop(_AT)
    hands.submit()
    with pytest.raises(Conflict):
        await hands.run(seen, Deactivate(history=RetryHistory(refused="x")))


def request(hands: Hands, uid: str, name: str = "asked") -> Delete:
    """One of the gang's, as it stands; the deletion of it."""
    meta = {"name": name, "namespace": _SPACE, "ownerReferences": [_reference(uid)]}
    stored = hands.server.put("provisioningrequests", {"metadata": meta})["metadata"]
    return Delete(kind="ProvisioningRequest", namespace=_SPACE, name=name, uid=stored["uid"])


def _reference(uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "PodTemplate", "name": "t", "uid": uid}


async def test_nothing_is_deleted_for_a_gang_that_has_changed_since(hands: Hands) -> None:
    seen, deletion = await hands.seen(), request(hands, "uid")
    hands.submit()
    with pytest.raises(StaleDecision):
        await hands.run(seen, deletion)
    assert ("provisioningrequests", _SPACE, "asked") in hands.server.objects
    await hands.run(await hands.seen(), deletion)
    assert ("provisioningrequests", _SPACE, "asked") not in hands.server.objects


async def test_a_write_that_proves_the_decision_right_spares_the_read_before_a_deletion(hands: Hands) -> None:
    deletion = request(hands, "uid")
    seen = await hands.seen()
    before = hands.reads()
    await hands.run(seen, SetCheckState(state=State.PENDING, message="", updates=()), deletion)
    assert ("provisioningrequests", _SPACE, "asked") not in hands.server.objects
    assert hands.reads() == before


async def test_what_is_deleted_leaves_the_cache_at_once_unless_it_still_ends(hands: Hands) -> None:
    ends = {"deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": ["example.com/kept"]}
    for lasts in (False, True):
        deletion = request(hands, "uid")
        cache = hands.caches[PROVISIONING_REQUEST].store
        cache.put(await hands.client.get(PROVISIONING_REQUEST, Key(_SPACE, "asked")))
        if lasts:
            hands.server.write_faults.append(lambda _: web.json_response({"metadata": ends}))
        await hands.run(await hands.seen(), deletion)
        assert len(cache) == lasts


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_owner_of_an_orphan_is_read_once_and_not_where_its_end_was_seen(
    hands: Hands, is_known: bool
) -> None:
    owner, workloads = await hands.seen(), hands.caches[WORKLOAD].store
    made = []
    for name in ("one", "two"):
        request(hands, "uid", name)
        found = await hands.client.get(PROVISIONING_REQUEST, Key(_SPACE, name))
        found.metadata.labels[WORKLOAD_UID] = owner.metadata.uid
        made.append(found)
    if is_known:
        workloads.put(owner)
        workloads.remove(owner)
    before = hands.reads()
    await hands.executor.release_orphans(made, of=_KEY)
    assert hands.reads() - before == (0 if is_known else 1)
    is_left = ("provisioningrequests", _SPACE, "one") in hands.server.objects
    assert is_left is not is_known  # The API server still has the Workload.


async def test_of_a_name_that_was_given_anew_nothing_is_deleted(hands: Hands) -> None:
    deletion = request(hands, "uid")
    hands.server.drop(("provisioningrequests", _SPACE, "asked"))
    request(hands, "uid")
    with pytest.raises(Conflict):
        await hands.run(await hands.seen(), deletion)


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_replica_that_lags_makes_no_request_of_an_attempt_that_is_over(
    hands: Hands, is_gone: bool
) -> None:
    """The other replica has made that request and deleted it with the attempt: its name is free again."""
    late = Hands(hands.server)
    late.leads = False
    seen, creates = await late.seen(), _creates()
    await hands.run(seen, *creates)
    made = hands.caches[PROVISIONING_REQUEST].get(Key(_SPACE, "asked"))
    release = Delete(kind="ProvisioningRequest", namespace=_SPACE, name="asked", uid=made.metadata.uid)
    await hands.run(seen, Deactivate(history=RetryHistory(tries=1)), release)
    if is_gone:
        hands.server.drop(_AT)
    with pytest.raises(StaleDecision):
        await late.run(seen, *creates)
    assert ("provisioningrequests", _SPACE, "asked") not in hands.server.objects


@pytest.mark.parametrize("leads", [True, False])
async def test_the_sole_writer_reads_nothing_before_it_asks(hands: Hands, leads: bool) -> None:
    hands.leads = leads
    seen, creates = await hands.seen(), _creates()
    hands.pending(seen)
    before = hands.reads()
    await hands.run(seen, *creates)
    assert ("provisioningrequests", _SPACE, "asked") in hands.server.objects
    assert hands.reads() - before == (0 if leads else 1)


def _creates() -> tuple[CreateTemplates, CreateRequest]:
    spec = _ask()
    labels = {ATTEMPT: "this"}
    return (
        CreateTemplates(request="asked", spec=spec, labels=labels),
        CreateRequest(name="asked", spec=spec, labels=labels),
    )


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_name_that_is_taken_is_believed_only_of_the_same_owner(hands: Hands, is_ours: bool) -> None:
    """Ours, from before a crash: go on. Somebody else's: say so, and leave it."""
    workload, spec = await hands.seen(), _ask()
    action = CreateRequest(name="asked", spec=spec, labels={})
    for number in range(len(spec.demands)):
        meta = {"name": f"asked-{number}", "namespace": _SPACE}
        hands.server.put("podtemplates", {"metadata": meta})
    await hands.requests.create_request(WORKLOADS.of(workload), action)
    stored = hands.server.objects["provisioningrequests", _SPACE, "asked"]
    if not is_ours:
        stored["metadata"]["ownerReferences"] = [_reference("somebody")]
    if is_ours:
        await hands.requests.create_request(WORKLOADS.of(workload), action)
    else:
        with pytest.raises(NameTaken):
            await hands.requests.create_request(WORKLOADS.of(workload), action)


@pytest.mark.parametrize(("code", "reason"), [(400, "BadRequest"), (403, "Forbidden"), (422, "Invalid")])
async def test_what_is_judged_and_not_created_is_told_from_what_fails(
    hands: Hands, code: int, reason: str
) -> None:
    """The first ends an attempt; the second (a server in trouble) is asked again."""
    owner, spec = WORKLOADS.of(await hands.seen()), _ask()
    action = CreateTemplates(request="asked", spec=spec, labels={ATTEMPT: "this"})
    pods: dict[str, Json] = {demand.pod_set: {"spec": {}} for demand in spec.demands}
    hands.server.write_faults.append(partial(_answer, code))
    with pytest.raises(CreateRejected) as raised:
        await hands.requests.create_templates(owner, action, pods)
    assert (str(raised.value), raised.value.attempt) == (f"PodTemplate {reason}: because", "this")
    hands.server.write_faults.append(partial(_answer, 500))
    with pytest.raises(ServerError):
        await hands.requests.create_templates(owner, action, pods)
    await hands.requests.create_templates(owner, action, pods)


@pytest.mark.parametrize("code", [400, 404, 409, 500])
async def test_a_webhook_that_denies_judges_with_whatever_code(hands: Hands, code: int) -> None:
    owner, spec = WORKLOADS.of(await hands.seen()), _ask()
    action = CreateTemplates(request="asked", spec=spec, labels={ATTEMPT: "this"})
    words = 'admission webhook "templates.example" denied the request: not on Fridays'
    hands.server.write_faults.append(partial(_answer, code, words=words))
    with pytest.raises(CreateRejected, match="not on Fridays"):
        await hands.requests.create_templates(owner, action, {"main": {"spec": {}}})


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            403,
            'podtemplates is forbidden: User "muster" cannot create resource "podtemplates" in API group "" '
            'in the namespace "team-a"',
        ),
        (403, 'podtemplates "asked-0" is forbidden: not yet ready to handle request'),
        (
            403,
            'podtemplates "asked-0" is forbidden: status unknown for quota: team, resources: '
            "count/podtemplates",
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "templates.example": failed to call webhook: '
            'Post "https://templates.example.svc:443/": no endpoints available for service "templates"',
        ),
    ],
)
async def test_what_a_starting_server_says_too_is_asked_again_for_a_minute(
    hands: Hands, code: int, words: str
) -> None:
    owner, spec = WORKLOADS.of(await hands.seen()), _ask()
    action = CreateTemplates(request="asked", spec=spec, labels={ATTEMPT: "this"})
    pods: dict[str, Json] = {demand.pod_set: {"spec": {}} for demand in spec.demands}
    for hands.seconds in (1000.0, 1010.0, 1059.0):
        hands.server.write_faults.append(partial(_answer, code, words=words))
        with pytest.raises(Forbidden if code == 403 else ServerError):
            await hands.requests.create_templates(owner, action, pods)
    hands.seconds = 1060.0
    hands.server.write_faults.append(partial(_answer, code, words=words))
    with pytest.raises(CreateRejected, match=r"PodTemplate (Forbidden|ServerError): "):
        await hands.requests.create_templates(owner, action, pods)
    another = replace(action, request="next")
    hands.server.write_faults.append(partial(_answer, code, words=words))
    with pytest.raises(Forbidden if code == 403 else ServerError):
        await hands.requests.create_templates(owner, another, pods)
    await hands.requests.create_templates(owner, another, pods)


@pytest.mark.parametrize(
    ("words", "patience"),
    [
        ("nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'nodes' denied request", 0),
        ('nodes "n1" is forbidden: User "muster" cannot patch resource "nodes" in API group ""', 60),
    ],
)
async def test_a_node_that_may_not_be_kept_ends_the_attempt_with_the_servers_words(
    hands: Hands, words: str, patience: float
) -> None:
    """It is paid for meanwhile, and the gang cannot start."""
    hands.server.put("nodes", {"metadata": {"name": "n1"}, "spec": {}})
    workload, action = await hands.seen(), HoldNode(node="n1", held_as="asked", attempt="this")
    for hands.seconds in (0.0, 59.0) if patience else ():
        hands.server.write_faults.append(partial(_answer, 403, words=words))
        with pytest.raises(Forbidden):
            await hands.run(workload, action)
    hands.seconds = patience
    hands.server.write_faults.append(partial(_answer, 403, words=words))
    with pytest.raises(CreateRejected) as raised:
        await hands.run(workload, action)
    assert raised.value.attempt == "this"
    failed = failure_of(raised.value)
    assert isinstance(failed, AttemptFailed)
    assert words in failed.failure


async def test_an_answer_keeps_its_time_and_words_of_a_wait_have_their_own(hands: Hands) -> None:
    for state, is_kept in ((State.PENDING, False), (State.READY, True)):
        before = {"name": CHECK, "state": state.value, "lastTransitionTime": "2026-11-21T09:00:00Z"}
        hands.server.put("workloads", {**_gang(), "status": {"admissionChecks": [before]}})
        await hands.run(await hands.seen(), SetCheckState(state=state, message="1 of 2 l4 nodes"))
        entry = (await hands.seen()).check_state(CHECK)
        assert entry is not None
        assert (entry.last_transition_time != _NOW) is is_kept


async def test_an_answer_that_the_server_refuses_ends_the_attempt_that_is_paid_for(hands: Hands) -> None:
    workload = await hands.seen()
    for attempt, refused in (("", Invalid), ("this", CreateRejected)):
        hands.server.write_faults.append(partial(_answer, 422, words="podSetUpdates: Invalid value"))
        with pytest.raises(refused, match="podSetUpdates"):
            await hands.run(workload, SetCheckState(state=State.READY, message="", attempt=attempt))


@pytest.mark.parametrize(
    ("code", "words", "outcome"),
    [
        (422, 'Pod "muster-0" is invalid: spec.containers: Required value', Unsatisfiable),
        (403, 'pods "muster-0" is forbidden: error looking up service account team-a/nobody', AttemptFailed),
        (403, 'pods "muster-0" is forbidden: no PriorityClass with name urgent was found', AttemptFailed),
        (403, 'pods "muster-0" is forbidden: exceeded quota: few, requested: pods=1', AttemptFailed),
        (403, 'pods "muster-0" is forbidden: violates PodSecurity "restricted:latest"', AttemptFailed),
        (500, 'admission webhook "pods.example" denied the request: not on Fridays', AttemptFailed),
        (400, 'admission webhook "pods.example" does not support dry run', None),
        (403, 'pods is forbidden: User "muster" cannot create resource "pods" in API group ""', None),
        (422, "pods is forbidden: ValidatingAdmissionPolicy 'muster-pods' with binding 'x' denied", None),
    ],
)
async def test_a_pod_that_the_server_refuses_ends_the_attempt_before_anything_is_asked_for(
    hands: Hands, code: int, words: str, outcome: type | None
) -> None:
    """And a dry run that fails for another reason stops no gang."""
    hands.pending(await hands.seen())
    held = msgspec.convert({"admission": {"podSetAssignments": [{"name": "main"}]}}, WorkloadStatus)
    workload = msgspec.structs.replace(await hands.seen(), status=held)
    templates, request = _creates()
    hands.server.write_faults.append(partial(_answer, code, words=words))
    actions = replace(templates, tries_pods=True), request
    if outcome is None:
        await hands.run(workload, *actions)
    else:
        with pytest.raises(CreateRejected, match=r"pod of main \w+: ") as raised:
            await hands.run(workload, *actions)
        assert isinstance(failure_of(raised.value), outcome)
        assert raised.value.attempt == "this"
    assert (("provisioningrequests", _SPACE, "asked") in hands.server.objects) is (outcome is None)


@pytest.mark.parametrize(
    ("pod", "seconds", "tries"),
    [
        ({"containers": [{"name": "train", "args": ["--seed=2"]}]}, ALLOWED_FOR, 1),
        ({"containers": [{"name": "train", "args": ["--seed=2"]}]}, ALLOWED_FOR + 1, 2),
        ({"containers": [{"name": "train", "args": ["--seed=1"], "env": [{"name": "no good"}]}]}, 0, 2),
        ({"containers": [{"name": "train", "args": ["--seed=1"]}], "serviceAccountName": "nobody"}, 0, 2),
    ],
)
async def test_the_jobs_of_a_sweep_try_one_pod(hands: Hands, pod: Json, seconds: float, tries: int) -> None:
    for each in ({"containers": [{"name": "train", "args": ["--seed=1"]}]}, pod):
        body = {
            "metadata": {"namespace": _SPACE, "name": f"try-{len(hands.server.requests)}"},
            "spec": each,
        }
        await hands.requests.try_pod(body, pod_set="main", attempt="this")
        hands.seconds += seconds
    assert len(hands.server.requests) == tries


async def test_jobs_that_come_at_once_try_one_pod(hands: Hands) -> None:
    body = {"metadata": {"namespace": _SPACE, "name": "try"}, "spec": {"containers": [{"name": "train"}]}}
    tries = (hands.requests.try_pod(body, pod_set="main", attempt="this") for _ in range(5))
    await asyncio.gather(*tries)
    assert len(hands.server.requests) == 1


async def test_a_refusal_is_that_of_one_job_and_the_others_try_their_own(hands: Hands) -> None:
    body = {"metadata": {"namespace": _SPACE, "name": "try"}, "spec": {"containers": [{"name": "train"}]}}
    hands.server.write_faults.append(partial(_answer, 403, words="forbidden: exceeded quota: few"))
    tries = (hands.requests.try_pod(body, pod_set="main", attempt="this") for _ in range(5))
    first, *others = await asyncio.gather(*tries, return_exceptions=True)
    assert isinstance(first, CreateRejected)
    assert others == [None] * 4


async def test_a_pod_that_was_refused_answers_for_no_other(hands: Hands) -> None:
    body = {"metadata": {"namespace": _SPACE, "name": "try"}, "spec": {"containers": [{"name": "train"}]}}
    hands.server.write_faults.append(partial(_answer, 403, words="forbidden: exceeded quota: few"))
    with pytest.raises(CreateRejected):
        await hands.requests.try_pod(body, pod_set="main", attempt="this")
    await hands.requests.try_pod(body, pod_set="main", attempt="this")
    assert len(hands.server.requests) == 2


def _answer(code: int, request: web.Request, words: str = "because") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": words}, status=code)


def _ask() -> Any:
    world = World()
    world.submit("a", {"main": ("l4", 1)})
    world.kueue()
    return world.snapshot("a").gang.request_specs[0]


async def test_what_the_server_stores_as_it_was_sent_is_not_altered(hands: Hands) -> None:
    """Of each kind, whichever of its annotations the caches keep."""
    owner, spec = WORKLOADS.of(await hands.seen()), _ask()
    labels = {ATTEMPT: "this"}
    pods: dict[str, Json] = {demand.pod_set: {"spec": {}} for demand in spec.demands}
    templates = CreateTemplates(request="asked", spec=spec, labels=labels)
    await hands.requests.create_templates(owner, templates, pods)
    await hands.requests.create_request(owner, CreateRequest(name="asked", spec=spec, labels=labels))
    claim = PodClaim(pod_set="main", annotations={CONSUME_ANNOTATION: "asked"}, node_selector={})
    held = CreatePlaceholders(
        request="asked",
        spec=spec,
        labels=labels,
        capacity_claims=tuple(
            CapacityClaim(demand=unpinned_demand(demand), pod_claim=claim, is_verified=True)
            for demand in spec.demands
        ),
        image="pause",
        max_lifetime=timedelta(minutes=30),
    )
    await hands.requests.hold(owner, held)
    assert ("pods", _SPACE, "asked-0-hold-0") in hands.server.objects


async def test_what_a_webhook_alters_ends_the_attempt_although_it_cannot_be_deleted(hands: Hands) -> None:
    """A watch has brought it: decided anew, it would count as what was sent."""
    owner, labels = WORKLOADS.of(await hands.seen()), {ATTEMPT: "this"}
    made = {"metadata": {"namespace": _SPACE, "name": "asked-0", "uid": "made"}}
    hands.server.write_faults.append(lambda _: web.json_response(made, status=201))
    hands.server.write_faults.append(partial(_answer, 403))
    templates = CreateTemplates(request="asked", spec=_ask(), labels=labels)
    with pytest.raises(CreateRejected, match="Altered: "):
        await hands.requests.create_templates(owner, templates, {"main": {"spec": {}}})


@pytest.mark.parametrize("write", ["placeholders", "nodes", "deletions"])
async def test_what_a_gang_has_one_of_for_each_pod_is_written_side_by_side(
    hands: Hands, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, under_way, peak = 2 * AT_ONCE, 0, 0
    world = World()
    world.submit("a", {"main": ("l4", count)})
    world.kueue()
    (spec,) = world.snapshot("a").gang.request_specs
    made = CreateSet(
        name="asked",
        spec=spec,
        labels={ATTEMPT: "this", SET_LABEL: "asked"},
        image="pause",
        max_lifetime=timedelta(hours=1),
    )
    actions: dict[str, tuple[Action, ...]] = {
        "placeholders": (made,),
        "nodes": tuple(HoldNode(node=f"n{number}", held_as="asked") for number in range(count)),
        "deletions": tuple(
            Delete(kind="PodTemplate", namespace=_SPACE, name=f"t{number}", uid=f"u{number}")
            for number in range(count)
        ),
    }
    workload = await hands.seen()

    def counted(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal under_way, peak
            under_way, peak = under_way + 1, max(peak, under_way + 1)
            try:
                return await call(*arguments, **options)
            finally:
                under_way -= 1

        return counting

    method = {"placeholders": "create", "nodes": "get", "deletions": "delete"}[write]
    monkeypatch.setattr(hands.client, method, counted(getattr(hands.client, method)))
    await hands.run(workload, *actions[write])
    assert peak == AT_ONCE
