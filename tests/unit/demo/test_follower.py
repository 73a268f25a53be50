"""A story tells what the job prints, whatever happens to the stream that it comes by."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli.commands import local_demo
from muster.local.demo import cluster, follower, scenarios
from muster.local.demo.events import Event, Screen, Snapshot
from muster.local.demo.follower import Follower, StoryError
from muster.local.demo.scenarios import Story
from tests.unit.demo.http_cluster import cluster_at
from tests.unit.preview.http_world import Asked, Reply, serving

_JSON = {"Content-Type": "application/json"}
_LINES = Reply(200, b"ray starts\n[train] loss 3.5\n[train] loss 0.1\n", {"Content-Type": "text/plain"})
_HALF = Reply(200, b"ray starts\n[train] loss 3.5\n", {"Content-Type": "text/plain"})
_CUT = Reply(is_cut=True)
_NOTHING = Reply(200, {"metadata": {"resourceVersion": "1"}, "items": []}, _JSON)


def _refused(code: int) -> Reply:
    return Reply(code, {"kind": "Status", "status": "Failure", "code": code, "message": "not now"}, _JSON)


def _pod(phase: str) -> dict[str, Any]:
    meta = {"name": "head", "namespace": "team-a", "uid": "u"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"phase": phase}}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_INTERVAL", 0.01)
    monkeypatch.setattr(cluster, "_PAUSE", 0.01)


def _follower(url: str, folder: Path, out: io.StringIO | None = None, **more: Any) -> Follower:
    """Of namespace team-a, on a screen that is `out`."""
    screen = Screen(as_json=False, out=out or io.StringIO())
    return Follower(cluster_at(url, folder), screen, namespace="team-a", timeout=60, **more)


def _told(answers: list[Reply], folder: Path) -> list[str]:
    """What is said of a pod whose log answers like this, one after another; then it has ended."""

    def script(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        if path.endswith("/log"):
            return answers.pop(0)
        if path.endswith("/pods/head"):
            return Reply(200, _pod("Running" if answers else "Succeeded"), _JSON)
        return _NOTHING

    out = io.StringIO()
    with serving(script) as server:
        _follower(server.url, folder, out)._read_log("gang", _pod("Running"))
    return [line.partition("| ")[2] for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="at-once"),
        pytest.param([_CUT], id="cut"),
        pytest.param([_refused(500)], id="refused"),
        pytest.param([_refused(400), _HALF], id="ended-early"),
        pytest.param([_HALF, _CUT], id="all-of-it"),
    ],
)
def test_every_line_is_told_once(before: list[Reply], tmp_path: Path) -> None:
    assert _told([*before, _LINES], tmp_path) == ["loss 3.5", "loss 0.1"]


def test_of_a_pod_that_is_gone_nothing_more_is_read(tmp_path: Path) -> None:
    with serving(lambda _: _refused(404)) as server:
        _follower(server.url, tmp_path)._read_log("gang", _pod("Running"))
    assert sum("/log" in asked.path for asked in server.asked) == 1


def test_a_pod_that_cannot_be_asked_about_is_read_on(tmp_path: Path) -> None:
    asked_about = iter([_refused(403), Reply(200, _pod("Succeeded"), _JSON)])

    def script(asked: Asked) -> Reply:
        path = asked.path.partition("?")[0]
        if path.endswith("/log"):
            return _LINES
        if path.endswith("/pods/head"):
            return next(asked_about)
        return _NOTHING

    with serving(script) as server:
        _follower(server.url, tmp_path)._read_log("gang", _pod("Running"))
    assert sum("/log" in asked.path for asked in server.asked) == 2


def test_the_end_of_a_story_is_its_last_line() -> None:
    out = io.StringIO()
    screen = Screen(as_json=True, out=out)
    late = Event("u/log/0", "primes", "| 1229 primes")
    screen.show(late)
    screen.end(reason=None)
    screen.show(late)

    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line.get("text", line.get("result")) for line in told] == ["| 1229 primes", "succeeded"]


def test_while_nothing_happens_a_story_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(follower, "_QUIET", 0.0)
    looks = [False, False, True]
    out = io.StringIO()
    with serving(lambda _: _NOTHING) as server:
        _follower(server.url, tmp_path, out).until("RayJob gang SUCCEEDED", lambda _: looks.pop(0))
    assert out.getvalue().count("waits for: RayJob gang SUCCEEDED") == 2


def test_a_story_whose_reader_has_gone_deletes_its_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def play(playing: Follower, *_: object) -> None:
        manifest = {"kind": "Job", "metadata": {"name": "primes", "namespace": "team-c"}}
        playing._apply(manifest)
        raise BrokenPipeError

    monkeypatch.setitem(scenarios.STORIES, "batch", Story("", "team-c", play))
    options = {"as_json": False, "delete": False, "keep": False, "name": "default", "ray_image": ""}
    with serving(lambda _: _NOTHING) as server:
        cluster_at(server.url, tmp_path)
        options |= {"victim": "rayjob", "timeout": 60, "kubeconfig": tmp_path / "kubeconfig"}
        with pytest.raises(BrokenPipeError):
            local_demo.local_story.callback("batch", python_image="x", **options)  # type: ignore[misc]
    assert [each.path for each in server.asked if each.method == "DELETE"] == [
        "/apis/batch/v1/namespaces/team-c/jobs/primes"
    ]


@pytest.mark.parametrize(
    ("bound", "gated", "is_part"), [(0, 5, False), (5, 0, False), (1, 4, True), (4, 1, True)]
)
def test_a_gang_of_which_a_part_has_nodes_fails_the_story(bound: int, gated: int, is_part: bool) -> None:
    specs = [{"nodeName": "n"}] * bound + [{"schedulingGates": [{"name": "muster.dev/gang"}]}] * gated
    pods = [
        {"metadata": {"name": f"p{number}", "labels": {"ray.io/cluster": "gang"}}, "spec": spec}
        for number, spec in enumerate(specs)
    ]
    cluster = {"kind": "RayCluster", "metadata": {"name": "gang"}, "status": {"state": "ready"}}
    now = Snapshot({"RayCluster": [cluster], "Pod": pods})
    if is_part:
        with pytest.raises(StoryError, match=f"{bound} pods .* have a node while {gated} wait at the gate"):
            scenarios._is_whole_and_ready(now, "gang")
    else:
        assert scenarios._is_whole_and_ready(now, "gang")


_BOUND = {"nodeName": "n"}
_GATED = {"schedulingGates": [{"name": "muster.dev/gang"}]}


@pytest.mark.parametrize(("kind", "made"), [("RayCluster", "train"), ("RayService", "train-x7k2p")])
@pytest.mark.parametrize(
    ("pods", "ending", "runs", "waits"),
    [
        pytest.param([_BOUND, _BOUND], 0, True, False, id="whole"),
        pytest.param([_GATED, _GATED], 0, False, True, id="evicted"),
        pytest.param([_GATED, _GATED], 2, False, True, id="evicted-and-ending"),
        pytest.param([_GATED], 1, False, False, id="one-to-come"),
        pytest.param([_BOUND, _GATED], 0, False, False, id="part"),
        pytest.param([], 2, False, False, id="ending"),
    ],
)
def test_a_gang_runs_or_waits_with_all_of_its_pods(
    pods: list[dict[str, Any]], ending: int, runs: bool, waits: bool, kind: str, made: str
) -> None:
    labels = {"ray.io/cluster": made}
    bodies = [
        {"metadata": {"name": f"p{number}", "labels": labels}, "spec": spec}
        for number, spec in enumerate(pods)
    ]
    bodies += [
        {"metadata": {"name": f"e{number}", "labels": labels, "deletionTimestamp": "now"}, "spec": _BOUND}
        for number in range(ending)
    ]
    cluster = {"workerGroupSpecs": [{"replicas": 1}]}
    spec = {"rayClusterConfig": cluster} if kind == "RayService" else cluster
    now = Snapshot({kind: [{"kind": kind, "metadata": {"name": "train"}, "spec": spec}], "Pod": bodies})
    assert (scenarios._runs(now, "train"), scenarios._waits(now, "train")) == (runs, waits)


def test_a_story_of_two_teams_follows_and_deletes_in_both_namespaces(tmp_path: Path) -> None:
    with serving(lambda _: _NOTHING) as server:
        both = _follower(server.url, tmp_path, others=("team-b",))
        both.look()
        both._jobs["owner"] = {"kind": "RayCluster", "metadata": {"name": "owner", "namespace": "team-b"}}
        both.delete("RayCluster", "owner")
    listed = [each.path.partition("?")[0] for each in server.asked if each.method == "GET"]
    assert {f"/api/v1/namespaces/{team}/pods" for team in ("team-a", "team-b")} <= {*listed}
    assert [each.path for each in server.asked if each.method == "DELETE"] == [
        "/apis/ray.io/v1/namespaces/team-b/rayclusters/owner"
    ]
