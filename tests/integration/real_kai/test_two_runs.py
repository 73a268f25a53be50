"""Two runs of the real KAI at the same time, as of two test processes, do not meet at a port."""

from pathlib import Path

from tests.envtest import ControlPlane
from tests.integration.real_kai.conftest import kai_plane
from tests.integration.real_kai.programs import Running
from tests.waiting import eventually


def test_a_second_run_starts_beside_the_first(plane: tuple[ControlPlane, Running], tmp_path: Path) -> None:
    _, first = plane
    with kai_plane(tmp_path) as (_, second):
        process = second.processes["kai-podgroup-controller"]
        eventually(
            "its controller works, or has ended",
            lambda: not process.is_alive or "Starting workers" in process.log.read_text(errors="replace"),
        )
        assert not second.dead(), second.logs()
        assert not first.dead(), first.logs()
