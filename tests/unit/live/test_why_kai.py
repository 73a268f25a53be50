"""`muster why` of a KAI job with a recording: its status from the cluster, then the forecast."""

from pathlib import Path
from typing import Any

import pytest

from muster.cli import forecast, main
from muster.cli.commands import why
from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.live.why.job_status import fetch_status
from muster.preview.replay import forecast_text
from tests.unit.preview.http_world import listing, serving
from tests.unit.preview.snapshot_world import kai_lists

STACK = Path(__file__).parents[3] / "stacks" / "Pulumi.kai-prod.yaml"


def test_the_status_stands_before_the_forecast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def predict(order: forecast.Asked) -> object:
        asked.append(order.job)
        return object()

    monkeypatch.setattr(forecast, "predict", predict)
    monkeypatch.setattr(forecast_text, "format_forecast", lambda _: "starts at noon\n")
    with serving(listing(kai_lists())) as server:
        monkeypatch.setattr(why, "connect", lambda *_, **__: Client(Access(server=server.url)))
        code = main(["why", "team-a/pg-train", "--stack", str(STACK), "--recording", "month.jsonl"])
    assert code == 0
    assert asked == ["team-a/pg-train"]
    text = capsys.readouterr().out
    assert text.startswith("team-a/pg-train: waits: 0 of 4 pods ready")
    assert text.endswith("\n\nstarts at noon\n")


def test_of_a_deployment_the_first_pod_that_waits_is_shown() -> None:
    """KAI makes each of its pods a group of its own."""
    pods, groups = [], []
    for name, at in (("serve-5d9-a", "n1"), ("serve-5d9-b", "")):
        owner = {"kind": "ReplicaSet", "name": "serve-5d9", "uid": "rs"}
        meta: dict[str, Any] = {"namespace": "team-a", "name": name, "uid": name, "ownerReferences": [owner]}
        meta |= {"labels": {"pod-template-hash": "5d9"}}
        notes = {"pod-group-name": f"pg-{name}"} | (
            {} if at else {"muster.dev/gang-status": "waits for nodes"}
        )
        status = {"conditions": [{"type": "Ready", "status": "True"}] if at else []}
        pods.append({"metadata": meta | {"annotations": notes}, "spec": {"nodeName": at}, "status": status})
        of_pod = {"kind": "Pod", "name": name, "uid": name}
        group = {"namespace": "team-a", "name": f"pg-{name}", "ownerReferences": [of_pod]}
        groups.append({"metadata": group, "spec": {"queue": "q", "minMember": 1}})
    lists: dict[str, list[dict[str, Any]]] = {
        "/apis/scheduling.run.ai/v2alpha2/podgroups": groups,
        "/api/v1/pods": pods,
    }
    with serving(listing(lists)) as server:
        found = fetch_status(Client(Access(server=server.url)), "team-a", "serve")
    assert found is not None
    assert found.outside == "waits for nodes"
