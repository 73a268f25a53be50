"""The shutdown of a manager whose program is being uninstalled."""

from typing import Any, cast

from structlog.testing import capture_logs

from muster.controller.kube.client import Client
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.removal import Removal


class _Uninstalled:
    async def is_under_way(self) -> bool:
        return True


async def test_a_failing_uninstall_handler_is_logged_and_does_not_keep_the_process() -> None:
    metrics = Metrics()
    client = cast(Client, None)
    events = EventRecorder(client, reporter="test", instance="one", metrics=metrics)
    manager = Manager(
        client,
        metrics=metrics,
        health=Health(metrics, port=0),
        events=events,
        removal=cast(Removal, cast(Any, _Uninstalled())),
    )

    async def fails() -> None:
        raise RuntimeError("no answer")

    manager.on_uninstall(fails)
    with capture_logs() as lines:
        await manager._run_uninstall_handlers()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "uninstall handlers did not complete"
    ]
