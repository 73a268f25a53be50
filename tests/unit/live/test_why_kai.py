"""`muster why` of a KAI job with a recording: its status from the cluster, then the forecast."""

from pathlib import Path

import pytest

from muster.cli import forecast, main
from muster.cli.commands import why
from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.preview.replay import forecast_text
from tests.unit.preview.http_world import Asked, Reply, serving
from tests.unit.preview.snapshot_world import kai_lists

STACK = Path(__file__).parents[3] / "stacks" / "Pulumi.kai-prod.yaml"


def test_the_status_stands_before_the_forecast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def serve(request: Asked) -> Reply:
        name = request.path.partition("?")[0].replace("/namespaces/team-a", "")
        return Reply(body={"items": kai_lists()[name]}) if name in kai_lists() else Reply(404)

    def predict(order: forecast.Asked) -> object:
        asked.append(order.job)
        return object()

    monkeypatch.setattr(forecast, "predict", predict)
    monkeypatch.setattr(forecast_text, "format_forecast", lambda _: "starts at noon\n")
    with serving(serve) as server:
        monkeypatch.setattr(why, "connect", lambda *_, **__: Client(Access(server=server.url)))
        code = main(["why", "team-a/pg-train", "--stack", str(STACK), "--recording", "month.jsonl"])
    assert code == 0
    assert asked == ["team-a/pg-train"]
    text = capsys.readouterr().out
    assert text.startswith("team-a/pg-train: waits: 0 of 4 pods ready")
    assert text.endswith("\n\nstarts at noon\n")
