"""What `muster plan` refuses before it builds or plays anything."""

from pathlib import Path

import pytest

from muster.cli import main
from muster.errors import ExitCode
from muster.model.stack import Scheduler
from muster.replay.recording import Header, Recording
from muster.replay.recording_file import write_recording

STACK = Path(__file__).resolve().parents[3] / "stacks" / "Pulumi.local.yaml"


def _recording(folder: Path) -> Path:
    header = Header(scheduler=Scheduler.KUEUE, start=0.0, end=1.0, source="test")
    path = folder / "month.jsonl"
    write_recording(path, Recording(header=header, jobs=()))
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--goal", "p95(nothing) < 15m"], "the stack has no 'nothing'"),
        (["--goal", "p95(all) < 15m", "--keep", "fast"], "'fast' is no goal"),
        (["--goal", "p95(all) < 15m", "--time", "10"], "--time 10"),
        (["--goal", "p95(all) < 15m", "--durations", "long"], "--durations long"),
        ([], "Missing: --goal GOAL."),
    ],
)
def test_unusable_options_are_refused_with_a_fix(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", str(STACK), "--recording", str(_recording(tmp_path)), *options]
    assert main(command) == ExitCode.UNUSABLE
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Fix: " in shown.err
    assert shown.out == ""


def test_a_stack_with_kai_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = STACK.with_name("Pulumi.kai-prod.yaml")
    command = ["plan", str(stack), "--recording", str(_recording(tmp_path)), "--goal", "p95(all) < 15m"]
    assert main(command) == ExitCode.UNUSABLE
    assert "one with KAI can take minutes" in capsys.readouterr().err
