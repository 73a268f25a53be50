"""Budgets: what is counted, when a team's queues are stopped, and what leaves them as they are."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from muster.config import load
from muster.config.document import ConfigError
from muster.controller.kube.errors import Conflict, Status
from muster.controller.kube.resource import Key
from muster.live.fields import from_json
from muster.model import names
from muster.model.clusters import Provider
from muster.model.observability import Budgets, RecordingSettings
from muster.model.prices import BUILT_IN
from muster.model.stack import Stack
from muster.render import kueue, observability, recorder
from muster.replay.recording_file import write_recording
from muster.usage.bill import By, format_bill, to_bill
from muster.usage.budgets import Budget, BudgetMetrics, Keeper, Order, hours_by_team, judge
from muster.usage.inputs import month_of, read_books, to_terms
from tests.unit.model.model_stacks import new_config, new_stack
from tests.unit.usage.test_bill import HOUR, RECORDING, STACK, START

NOW = START + 50 * HOUR
MONTH = month_of(START)
NEXT = MONTH[1]


WRITTEN = {names.WRITER_ANNOTATION: names.BUDGETS_WRITER}


class Server:
    """LocalQueues. The API server takes away what their writer no longer applies."""

    def __init__(self, *queues: str, stop_policy: str | None = None) -> None:
        self.queues = {queue: self._new(queue, stop_policy) for queue in queues}
        self.writes = 0

    def _new(self, queue: str, stop_policy: str | None) -> dict[str, Any]:
        namespace, _, name = queue.partition("/")
        spec = {"clusterQueue": "team"} | ({"stopPolicy": stop_policy} if stop_policy else {})
        meta = {"namespace": namespace, "name": name, "uid": f"uid-{queue}", "annotations": {**WRITTEN}}
        return {"metadata": meta, "spec": spec}

    async def pages(self, _: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(items=[json.dumps(each).encode() for each in self.queues.values()])

    async def apply(self, _: object, key: Key, body: dict[str, Any], *, field_manager: str) -> None:
        held = self.queues[f"{key.namespace}/{key.name}"]
        if body["metadata"]["uid"] != held["metadata"]["uid"]:
            raise Conflict(Status(code=409, reason="Conflict"))
        self.writes += 1
        held["metadata"]["annotations"] = WRITTEN | body["metadata"]["annotations"]
        held["spec"] = {"clusterQueue": "team", **body["spec"]}

    def note(self, queue: str) -> str:
        notes: dict[str, str] = self.queues[queue]["metadata"].get("annotations", {})
        return notes.get(names.BUDGET_ANNOTATION, "")

    def held(self) -> set[str]:
        return {name for name, queue in self.queues.items() if queue["spec"].get("stopPolicy") == "Hold"}


def _order(**hours: int) -> Order:
    budgets = tuple(
        Budget(team=team, hours=each, queues=(f"{team}/default", f"{team}/more"))
        for team, each in hours.items()
    )
    return Order(budgets=budgets, warn=0.8, terms=to_terms(load(STACK)))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "recording.jsonl.gz"
    write_recording(path, RECORDING)
    return path


def _round(server: Server, recording: Path, order: Order, *, now: float = NOW) -> None:
    asyncio.run(Keeper(recording, order).round(server, now=now))  # type: ignore[arg-type]


def test_a_budget_counts_what_the_bill_of_the_team_has() -> None:
    bill = to_bill(read_books(RECORDING, load(STACK), BUILT_IN, month=None), By.TEAM)
    hours = hours_by_team(RECORDING, to_terms(load(STACK)), MONTH)
    assert dict(hours) == pytest.approx({line.name: line.total for line in bill.lines if line.name})


def test_only_a_team_that_has_used_all_of_its_budget_starts_nothing_more(recording: Path) -> None:
    # Each of both has used 72 GPU-hours.
    server = Server("ranking/default", "ranking/more", "vision/default", "speech/default")
    order = _order(ranking=72, vision=80)
    _round(server, recording, order)
    assert server.held() == {"ranking/default", "ranking/more"}
    assert server.note("ranking/default").startswith(
        "used 72 of 72 GPU-hours in 2026-11; more starts from 2026-12-01"
    )
    assert server.note("vision/default") == (
        "used 72 of 80 GPU-hours in 2026-11; at the end of the budget nothing more starts"
    )
    assert not server.note("speech/default")
    writes = server.writes
    _round(server, recording, order)
    assert server.writes == writes, "what is so already is not written"


@pytest.mark.parametrize("order", [_order(ranking=1000), _order()], ids=["raised", "taken away"])
def test_a_larger_budget_and_none_let_the_team_start_again(recording: Path, order: Order) -> None:
    server = Server("ranking/default")
    _round(server, recording, _order(ranking=72))
    assert server.held()
    _round(server, recording, order)
    assert not server.held()
    assert not server.note("ranking/default")


def test_a_budget_that_the_stack_has_ended_holds_no_queue_again(recording: Path) -> None:
    """The provider has released it, and the pod with the budget is still there."""
    server = Server("ranking/default")
    server.queues["ranking/default"]["metadata"]["annotations"].clear()
    _round(server, recording, _order(ranking=72))
    assert server.writes == 0


def test_the_queues_of_a_team_with_a_budget_name_who_else_writes_them() -> None:
    stack = replace(load(STACK), budgets=Budgets(teams={"ranking": 1}))
    written = {
        name
        for teams in kueue.by_department(stack).values()
        for name, bodies in teams.items()
        for body in bodies
        if body["kind"] == "LocalQueue" and body["metadata"].get("annotations") == WRITTEN
    }
    assert written == {"ranking"}


def test_with_the_next_month_the_team_starts_again(tmp_path: Path) -> None:
    server, path = Server("ranking/default"), tmp_path / "recording.jsonl"
    write_recording(path, RECORDING)
    _round(server, path, _order(ranking=72))
    header = replace(RECORDING.header, end=NEXT + 60)
    path.unlink()
    write_recording(path, replace(RECORDING, header=header))
    _round(server, path, _order(ranking=72), now=NEXT + 60)
    assert not server.held()


def test_a_stale_recording_and_a_stop_of_a_person_change_nothing(recording: Path) -> None:
    server = Server("ranking/default")
    _round(server, recording, _order(ranking=72), now=NOW + 3600)
    assert server.writes == 0
    by_hand = Server("ranking/default", stop_policy="Hold")
    _round(by_hand, recording, _order(ranking=1000))
    assert by_hand.writes == 0
    assert by_hand.held()


def test_a_budget_is_spent_at_its_last_hour_and_warned_of_at_its_share() -> None:
    budget = Budget(team="a", hours=100, queues=())
    states = [judge(budget, used, warn=0.8, month=MONTH) for used in (79.9, 80.0, 99.9, 100.0)]
    assert [(bool(each.note), each.is_held) for each in states] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
    ]


def test_the_bill_of_a_month_says_how_much_of_its_budget_a_team_has_used() -> None:
    stack = replace(load(STACK), budgets=Budgets(teams={"ranking": 144}))
    bill = to_bill(read_books(RECORDING, stack, BUILT_IN, month=None), By.TEAM)
    text = format_bill(bill, room=None, has_colour=False)
    assert "ranking used 72.0 of its 144 GPU-hours in 2026-11 (50%)." in text


# What a stack makes of it


def _stack(budgets: object, **more: Any) -> Stack:
    return new_stack(Provider.GKE, **{"recording": {"enabled": True}, "budgets": budgets, **more})


def test_the_recorders_pod_gets_the_queues_and_the_right_to_stop_them_alone() -> None:
    stack = _stack({"teams": {"team-a": 4000}, "warn": 0.9})
    found = recorder.objects(stack, image="i", node_selector={})
    containers = found[-1]["spec"]["template"]["spec"]["containers"]
    (argument,) = (each for each in containers[-1]["args"] if each.startswith("--order="))
    order = from_json(Order, json.loads(argument.partition("=")[2]), "order")
    assert order.budgets == (Budget(team="team-a", hours=4000, queues=("team-a/default",)),)
    assert order.warn == 0.9
    terms = to_terms(stack)
    assert (order.terms.pools, dict(order.terms.teams)) == (terms.pools, dict(terms.teams))
    rules = next(each for each in found if each["kind"] == "ClusterRole")["rules"]
    patched = [rule for rule in rules if "patch" in rule["verbs"]]
    assert [(rule["resources"], rule["resourceNames"]) for rule in patched] == [
        (["localqueues"], ["default"])
    ]
    without = recorder.objects(replace(stack, budgets=Budgets()), image="i", node_selector={})
    assert len(without[-1]["spec"]["template"]["spec"]["containers"]) == 1


@pytest.mark.parametrize(
    ("teams", "more", "where"),
    [
        ({"team-a": 10}, {"recording": {}}, "muster:budgets"),
        ({"team-a": 10}, {"recording": {"enabled": True, "ephemeral": True}}, "muster:budgets"),
        ({"team-a": 10}, {"scheduler": "kai"}, "muster:budgets"),
        ({"team-z": 10}, {}, "muster:budgets.teams.team-z"),
        ({"team-a": 0}, {}, "muster:budgets.teams.team-a"),
    ],
)
def test_budgets_that_cannot_work_are_refused(
    teams: dict[str, int], more: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _stack({"teams": teams}, **more)
    assert where in [each.path for each in caught.value.violations]


def test_a_team_whose_queue_the_stack_stops_has_no_budget() -> None:
    stack = _stack({"teams": {"team-a": 10}})
    assert stack.recording == RecordingSettings(enabled=True)
    departments = new_config(Provider.GKE)["muster:departments"]
    departments["research"]["teams"]["team-a"]["kueue"] = {"localQueues": {"default": {"stopPolicy": "Hold"}}}
    with pytest.raises(ConfigError, match="stopPolicy"):
        _stack({"teams": {"team-a": 10}}, departments=departments)


def test_what_scrapes_the_metrics_of_muster_finds_those_of_budgets() -> None:
    stack = _stack({"teams": {"team-a": 10}})
    *_, deployment = found = recorder.objects(stack, image="i", node_selector={})
    pod = deployment["spec"]["template"]
    (port,) = pod["spec"]["containers"][-1]["ports"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    assert f"--metrics={port['containerPort']}" in pod["spec"]["containers"][-1]["args"]
    (policy,) = (each for each in found if each["kind"] == "NetworkPolicy")
    (way_in,) = policy["spec"]["ingress"]
    assert way_in["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    operator = _stack({"teams": {"team-a": 10}}, observability={"metrics": "prometheus-operator"})
    monitors = observability.objects(operator, selector={}, port="health")["monitors"]
    assert monitors[-1]["spec"]["selector"] == {"matchLabels": pod["metadata"]["labels"]}
    assert monitors[-1]["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]


def test_the_metric_has_the_share_that_a_team_has_used(recording: Path) -> None:
    registry = CollectorRegistry()
    keeper = Keeper(recording, _order(ranking=144), BudgetMetrics(registry))
    asyncio.run(keeper.round(Server("ranking/default"), now=NOW))  # type: ignore[arg-type]
    assert registry.get_sample_value("muster_budget_used_ratio", {"team": "ranking"}) == pytest.approx(0.5)
