"""`muster top` on a scripted API server: what is shown of plain Kueue, and of what may not be listed."""

import json
from datetime import datetime
from typing import Any

import pytest

from muster.cli.commands.live import fit
from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.live import top
from muster.live.fields import text, to_json
from muster.live.top import Mirror, Top, format_top, paths, to_top
from tests.unit.live.test_pods import READY, pod
from tests.unit.preview.http_world import Asked, Reply, serving
from tests.unit.preview.snapshot_world import cluster_queue, kai_lists, local_queue, workload
from tests.waiting import eventually

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
NOW = "2026-11-21T10:30:00+00:00"


def _lists() -> dict[str, list[dict[str, Any]]]:
    """A queue that uses two GPUs of a quota of one; a gang waits for nodes, one runs, one is in line."""
    queue = cluster_queue()
    flavor = {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "1"}]}
    queue["spec"]["resourceGroups"] = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    reserved, running, pending = (
        workload("a", state="reserved"),
        workload("b", state="admitted"),
        workload("c"),
    )
    message = "1 of 2 l4 nodes (limit 30m); releases at 10:42 UTC"
    reserved["status"]["admissionChecks"] = [{"name": "gang", "state": "Pending", "message": message}]
    for name, found in (("a", reserved), ("\x1b[2Jb", running), ("c", pending)):
        found["metadata"]["ownerReferences"][0] |= {"name": name, "uid": f"job-{name}"}
    pods = [pod(f"b-{index}", owner="job-\x1b[2Jb", **READY) for index in range(2)]
    for index, each in enumerate(pods):
        each["spec"]["nodeName"] = f"n{index}"
    return {
        f"{KUEUE}/clusterqueues": [queue],
        f"{KUEUE}/cohorts": [],
        f"{KUEUE}/localqueues": [local_queue()],
        f"{KUEUE}/workloads": [reserved, running, pending],
        "/api/v1/pods": pods,
        "/api/v1/nodes": [_node("n0", 1), _node("n1", 1), _node("n2", 1), _node("system", 0)],
    }


def _node(name: str, gpus: int) -> dict[str, Any]:
    labels = {"muster.dev/pool": "l4" if gpus else "system"}
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-11-21T10:00:00Z"}
    return {"metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "8"}}}


def _top(lists: dict[str, list[dict[str, Any]]] | None = None, **statuses: int) -> Top:
    """`statuses`: by the last part of its path, what the server answers in place of a list."""
    lists = _lists() if lists is None else lists

    def answer(asked: Asked) -> Reply:
        name = asked.path.rpartition("/")[2]
        if name in statuses or asked.path not in lists:
            return Reply(status=statuses.get(name, 404), body={})
        return Reply(body={"metadata": {"resourceVersion": "1"}, "items": lists[asked.path]})

    with serving(answer) as server:
        mirror = Mirror(Client(Access(server=server.url)), paths())
        mirror.read()
        return to_top(mirror, now=datetime.fromisoformat(NOW))


def test_a_queue_shows_quota_use_borrowed_and_who_waits() -> None:
    (queue,) = _top().queues
    (use,) = queue.flavors
    assert (queue.cohort, queue.waiting) == ("research", 1)
    assert (use.flavor, use.quota, use.used, use.borrowed) == ("l4", 1, 2, 1)


def test_gangs_that_wait_come_first_with_their_deadline() -> None:
    steps = [(each.job, each.step, each.deadline) for each in _top().gangs]
    assert steps[0] == ("team-a/a", "has quota, waits for capacity", "until 10:42 UTC")
    assert steps[1][:2] == ("team-a/c", "waits for quota")
    assert steps[2][1] == "runs: 2 pods"


def test_nodes_name_the_jobs_that_they_run_or_were_bought_for() -> None:
    nodes = _top().nodes
    assert [each.name for each in nodes] == ["n0", "n1", "n2"]
    assert nodes[2].awaited_by == ("team-a/a",)


def test_the_text_has_no_terminal_escapes_and_aligned_columns() -> None:
    text = format_top(_top())
    assert "\x1b" not in text
    assert "team-a/b" in text
    lines = [line for line in text.splitlines() if line.startswith("n")]
    assert len({line.index("l4") for line in lines}) == 1


def test_80_columns_have_whole_rows_and_bars() -> None:
    text = format_top(_top(), columns=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "█████▒▒▒▒▒" in text, "half of what the queue uses is borrowed"
    assert "…" not in text
    assert "▒" not in format_top(_top()), "a program gets no bars"


def test_what_may_not_be_listed_is_named_and_the_rest_is_shown() -> None:
    top = _top(nodes=403, pods=403)
    assert top.unreadable == ("nodes may not be listed", "pods may not be listed")
    assert len(top.gangs) == 3
    assert top.gangs[2].step == "admitted: its pods may start"
    assert "nodes may not be listed." in format_top(top)


def test_a_cluster_without_kueue_is_named() -> None:
    assert "clusterqueues are not served" in _top(clusterqueues=404).unreadable


def test_with_kai_queues_and_pod_groups_are_shown() -> None:
    lists = kai_lists()
    (queue,) = lists["/apis/scheduling.run.ai/v2/queues"]
    queue["spec"] = {"parentQueue": "research", "resources": {"gpu": {"quota": 2}}}
    top = _top(lists)
    (use,) = top.queues[0].flavors
    assert (top.queues[0].cohort, top.queues[0].waiting) == ("research", 1)
    assert (use.quota, use.used, use.borrowed) == (2, 3, 1)
    assert [(each.job, each.queue) for each in top.gangs] == [("team-a/pg-train", "q")]
    assert top.gangs[0].step == "waits: 0 of 4 pods ready, 1 completed"
    assert top.unreadable == ()
    told = "0 of 1 l4 nodes for workers; releases at 10:42 UTC"
    lists["/api/v1/pods"] = [_gated(told)]
    assert [each.reason for each in _top(lists).gangs] == [told], "the gate says more than that there is one"
    lists = {**kai_lists(), "/apis/scheduling.run.ai/v2/queues": [queue]}
    group = [pod for pod in lists["/api/v1/pods"] if pod["metadata"]["annotations"].get("pod-group-name")]
    for each in group:
        each["spec"] |= {"nodeName": "n1", "schedulingGates": []}
    placed = _top(lists)
    assert placed.queues[0].waiting == 0, "pods that start up on their nodes wait for no queue"
    assert placed.gangs[0].step == "started: 0 of 4 pods ready, 1 completed"
    queue["spec"]["resources"]["gpu"]["quota"] = -1
    assert "no limit" in format_top(_top(lists))


def _gated(told: str) -> dict[str, Any]:
    """A pod behind the gate, which says what its gang waits for."""
    pod = next(each for each in kai_lists()["/api/v1/pods"] if each["spec"]["schedulingGates"])
    pod["metadata"]["annotations"]["muster.dev/gang-status"] = told
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    return {**pod, "status": {"phase": "Pending", "conditions": [gated]}}


def test_it_is_json() -> None:
    assert json.loads(json.dumps(to_json(_top())))["queues"][0]["flavors"][0]["quota"] == 1


@pytest.mark.parametrize(("line", "cut"), [("abcd", "abcd"), ("abcde", "abc…"), ("日本語", "日…")])
def test_a_line_is_cut_at_the_width_of_the_terminal(line: str, cut: str) -> None:
    assert fit(line, 4) == cut


def test_a_list_follows_changes_and_is_read_again_when_its_watch_is_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(top, "_RETRY", 0.01)

    def node(name: str, version: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "resourceVersion": version}}

    def lines(*events: tuple[str, dict[str, Any]]) -> bytes:
        return b"".join(json.dumps({"type": kind, "object": body}).encode() + b"\n" for kind, body in events)

    watches = [
        lines(("ADDED", node("b", "2")), ("DELETED", node("a", "3")), ("BOOKMARK", node("", "4"))),
        b'{"type": "MODI',
        lines(("ERROR", {"code": 410})),
    ]
    lists = [[node("a", "1")], [node("c", "5")], [node("d", "6")]]

    def answer(asked: Asked) -> Reply:
        if "watch=true" in asked.path:
            return Reply(body=watches.pop(0)) if watches else Reply(status=410, body={})
        listed = lists.pop(0) if len(lists) > 1 else lists[0]
        return Reply(body={"metadata": {"resourceVersion": "1"}, "items": listed})

    with serving(answer) as server:
        mirror = Mirror(Client(Access(server=server.url)), {"nodes": "/api/v1/nodes"})
        mirror.read()
        assert [text(each, "metadata", "name") for each in mirror.of("nodes")] == ["a"]
        mirror.follow()
        eventually(
            "it is read again",
            lambda: [text(each, "metadata", "name") for each in mirror.of("nodes")] == ["d"],
        )
        versions = [each.path.rpartition("=")[2] for each in server.asked if "watch" in each.path]
    assert versions[:2] == ["1", "4"]
