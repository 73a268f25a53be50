"""The forecaster of a stack beside the real Kueue: what it writes on Workloads, and what it may not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest

from muster.model.names import FORECAST_ANNOTATION, SYSTEM_NAMESPACE
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from muster.render import recorder as deployed
from muster.render.tenancy.policies.fences import fences
from muster.replay import forecaster
from muster.replay.__main__ import main
from muster.replay.player import PROGRAM
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run
from muster.replay.recording_file import write_recording
from tests import built
from tests.envtest import ControlPlane, path_of
from tests.integration.accounts import account_kubeconfig, attack
from tests.integration.kueue_api.objects import apply
from tests.integration.recorder import deploy, recording_stack
from tests.waiting import eventually

Object = dict[str, Any]

TEAM: Final = "forecasted"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS: Final = f"/apis/{KUEUE}/namespaces/{TEAM}/workloads"
MERGE: Final = "application/merge-patch+json"
_HOUR: Final = 3600.0
_NOTE: Final = re.compile(
    r"starts \S+T\S+Z to \S+T\S+Z \(80 %\), place 1 of 1, as of \d{4}-\d\d-\d\dT\d\d:\d\dZ"
)


@dataclass(frozen=True)
class Forecasted:
    """A queue of four GPUs: one job holds them, one waits. `container` is the forecaster's."""

    plane: ControlPlane
    container: Object
    recording: Path
    player: Path

    def round(self, *more: str) -> int:
        """The exit code of the program, with the pod's own rights."""
        replaced = {"--out": str(self.recording), "--player": str(self.player)}
        arguments = [
            f"{name}={replaced.get(name, value)}" if equals else name
            for name, equals, value in (each.partition("=") for each in self.container["args"])
        ]
        kubeconfig = account_kubeconfig(self.plane, deployed.NAME)
        return main([*arguments, *more, "--once", f"--kubeconfig={kubeconfig}"])

    def get(self, name: str) -> Object:
        found: Object = self.plane.call("GET", f"{WORKLOADS}/{name}")
        return found

    def note(self, name: str) -> str | None:
        found: str | None = self.get(name)["metadata"].get("annotations", {}).get(FORECAST_ANNOTATION)
        return found


@pytest.fixture(scope="module")
def stack() -> Stack:
    return recording_stack(forecasts=True)


@pytest.fixture(scope="module")
def forecasted(
    kueue_server: ControlPlane, stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Forecasted]:
    player = built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")
    pod = deploy(kueue_server, stack)
    bodies = [body for fence in fences(stack) for body in fence.manifests(TenancyMode.ENFORCE)]
    ours = [body for body in bodies if body["metadata"]["name"] in ("muster-recorder", "muster-controller")]
    for body in (*ours, *_queue()):
        apply(kueue_server, body)
    recording = tmp_path_factory.mktemp("forecaster") / "recording.jsonl.gz"
    write_recording(recording, _past())
    for name in ("runs", "waits"):
        apply(kueue_server, _workload(name))
        eventually(f"Kueue has looked at {name}", partial(_conditions, kueue_server, name))
    container = next(each for each in pod["spec"]["containers"] if each["name"] == "forecaster")
    yield Forecasted(kueue_server, container, recording, player)
    for name in ("runs", "waits"):
        kueue_server.call("DELETE", f"{WORKLOADS}/{name}")
    for body in ours:
        kueue_server.call("DELETE", path_of(body))


def _queue() -> list[Object]:
    flavors = [{"name": TEAM, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    specs: list[tuple[str, str, Object]] = [
        ("ResourceFlavor", "", {}),
        ("ClusterQueue", "", {"resourceGroups": groups, "namespaceSelector": {}}),
        ("LocalQueue", TEAM, {"clusterQueue": TEAM}),
    ]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    return [
        space,
        *(
            {
                "apiVersion": KUEUE,
                "kind": kind,
                "metadata": {"name": TEAM, **({"namespace": namespace} if namespace else {})},
                "spec": spec,
            }
            for kind, namespace, spec in specs
        ),
    ]


def _workload(name: str) -> Object:
    resources = {"requests": {"nvidia.com/gpu": "4"}}
    container = {"name": "main", "image": "none", "resources": resources}
    pods = {"containers": [container], "restartPolicy": "Never"}
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "queueName": TEAM,
            "priority": 10,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
        },
    }


def _conditions(plane: ControlPlane, name: str) -> list[Object]:
    found: list[Object] = plane.call("GET", f"{WORKLOADS}/{name}").get("status", {}).get("conditions", [])
    return found


def _past(*, wait: float = 0.0) -> Recording:
    """An earlier day: the team's jobs took one to three hours, and asked for no GPU. `wait`: seconds until
    their nodes were there.
    """
    start = 1_764_000_000.0
    pods = PodSet(name="p0", count=1, requests={"nvidia.com/gpu": 0})
    jobs = []
    for index in range(24):
        begin, end = start + index, start + index + wait + (1 + index % 3) * _HOUR
        run = Run(reserved=begin, admitted=begin + wait, ended=end, end=End.FINISHED, flavors=(TEAM,))
        jobs.append(
            Job(
                id=f"past-{index:02}",
                team=TEAM,
                queue=TEAM,
                created=begin,
                pod_sets=(pods,),
                runs=(run,),
                left=end,
                outcome=End.FINISHED,
            )
        )
    header = Header(scheduler=Scheduler.KUEUE, start=start, end=start + 30 * _HOUR, source="test")
    return Recording(header=header, jobs=tuple(jobs))


def test_a_start_counts_how_long_the_nodes_of_its_pool_took(forecasted: Forecasted, tmp_path: Path) -> None:
    slow = tmp_path / "slow.jsonl.gz"
    write_recording(slow, _past(wait=12 * _HOUR))
    at_once, late = (
        _earliest(replace(forecasted, recording=recording)) for recording in (forecasted.recording, slow)
    )
    assert timedelta(hours=11) < late - at_once < timedelta(hours=13)


def _note(forecasted: Forecasted, note: str | None) -> None:
    """As if an earlier round had written it."""
    body = {"metadata": {"annotations": {FORECAST_ANNOTATION: note}}}
    forecasted.plane.call("PATCH", f"{WORKLOADS}/waits", body, content_type=MERGE)


def _earliest(forecasted: Forecasted) -> datetime:
    """Without what was written before, which stays for ten minutes."""
    _note(forecasted, None)
    assert forecasted.round() == 0
    return datetime.fromisoformat((forecasted.note("waits") or "").split()[1])


def test_a_round_without_time_plays_fewer_futures_and_says_so(
    forecasted: Forecasted, capsys: pytest.CaptureFixture[str]
) -> None:
    _note(forecasted, None)
    assert forecasted.round("--minutes=0") == 0
    assert "9 of 20 futures were played" in capsys.readouterr().err
    assert forecasted.note("waits") is not None


def test_a_round_without_memory_says_so_and_removes_what_is_out_of_date(
    forecasted: Forecasted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _note(forecasted, "starts at once, place 1 of 1, as of 2026-01-01T00:00Z")
    monkeypatch.setattr(forecaster, "load_recording", Mock(side_effect=MemoryError))
    assert forecasted.round() == 0
    assert "more memory than the forecaster may use" in capsys.readouterr().err
    assert forecasted.note("waits") is None


def test_a_waiting_workload_says_when_it_may_start_until_it_starts(forecasted: Forecasted) -> None:
    assert forecasted.round() == 0
    note = forecasted.note("waits")
    assert note is not None
    assert _NOTE.fullmatch(note), note
    assert forecasted.note("runs") is None

    before = forecasted.get("waits")["metadata"]["resourceVersion"]
    assert forecasted.round() == 0
    assert forecasted.get("waits")["metadata"]["resourceVersion"] == before, "written twice in ten minutes"

    forecasted.plane.call("DELETE", f"{WORKLOADS}/runs")
    eventually(
        "the other one is admitted",
        lambda: any(
            each["type"] == "QuotaReserved" and each["status"] == "True"
            for each in _conditions(forecasted.plane, "waits")
        ),
    )
    assert forecasted.round() == 0
    assert forecasted.note("waits") is None
    apply(forecasted.plane, _workload("runs"))


def test_too_few_jobs_in_the_recording_are_said_and_nothing_is_written(
    forecasted: Forecasted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.jsonl.gz"
    whole = _past()
    write_recording(few, Recording(header=whole.header, jobs=whole.jobs[:3]))
    beginning = Forecasted(forecasted.plane, forecasted.container, few, forecasted.player)
    assert beginning.round() == 0
    assert "3 jobs have ended in the recording; forecasts begin with 20" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"priority": 1000}},
        {"spec": {"active": False}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"muster.dev/retry-at": "2026-01-01T00:00:00Z"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
    ],
    ids=str,
)
def test_a_stolen_token_of_its_account_writes_that_annotation_and_nothing_else(
    forecasted: Forecasted, change: Object
) -> None:
    def status(body: Object) -> int:
        return attack(forecasted.plane, "PATCH", f"{WORKLOADS}/waits", body, MERGE, account=deployed.NAME)

    eventually("the policy is in force", lambda: status({"metadata": {"labels": {"early": "x"}}}) == 403)
    assert status({"metadata": {"annotations": {FORECAST_ANNOTATION: "starts at once"}}}) == 200
    assert status(change) == 403


def test_its_account_has_no_other_right(forecasted: Forecasted) -> None:
    for method, path in (
        ("DELETE", f"{WORKLOADS}/waits"),
        ("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"),
        ("GET", f"/api/v1/namespaces/{TEAM}/pods"),
    ):
        assert attack(forecasted.plane, method, path, {}, account=deployed.NAME) == 403, path
