"""Children end when the build ends, and their failures read as one line."""

import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.builder.children import BuildStoppedError, Children, Failure, explain
from tests.processes import has_ended
from tests.waiting import PATIENCE, eventually

SHELL = ["sh", "-c"]


def test_a_stop_ends_the_child_and_its_own_children(tmp_path: Path) -> None:
    children, pids = Children(), tmp_path / "pids"
    script = f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; echo started; wait"
    started, outcome = threading.Event(), []

    def work() -> None:
        try:
            children.run([*SHELL, script], on_line=lambda line: started.set())
        except BuildStoppedError:
            outcome.append("stopped")

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(PATIENCE)
    children.stop()
    thread.join(PATIENCE)
    assert outcome == ["stopped"]
    for pid in map(int, pids.read_text().split()):
        eventually(f"process {pid} has ended", partial(has_ended, pid))


def test_an_interrupt_while_reading_ends_the_child() -> None:
    seen: list[int] = []

    def interrupt(line: str) -> None:
        seen.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Children().run([*SHELL, "echo $$; sleep 600"], on_line=interrupt)
    assert has_ended(seen[0])


def test_a_child_that_ignores_the_request_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.local.builder.children._GRACE_SECONDS", 0.1)
    children, started = Children(), threading.Event()
    deaf = "from signal import *; signal(SIGTERM, SIG_IGN); print('on', flush=True); pause()"

    def work() -> None:
        with pytest.raises(BuildStoppedError):
            children.run([sys.executable, "-c", deaf], on_line=lambda line: started.set())

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(PATIENCE)
    children.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_nothing_is_started_after_a_stop() -> None:
    children = Children()
    children.stop()
    with pytest.raises(BuildStoppedError):
        children.run(["true"])


def test_a_failure_keeps_the_last_words() -> None:
    failure = Children().run([*SHELL, "echo first; echo last; exit 3"])
    assert failure == Failure(code=3, tail=("first", "last"))


def test_an_overdue_child_is_ended_and_told() -> None:
    failure = Children().run(["sleep", "600"], timeout=0.2)
    assert failure
    assert "ended after" in failure.text()


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(LocalClusterError, match="no-such-program: is not on this machine"):
        Children().run(["no-such-program"])


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(code=1, tail=("write x: no space left on device",)), "the disk is full"),
        (Failure(code=-9, tail=()), "lack of memory"),
        (Failure(code=1, tail=("compile: signal: killed",)), "lack of memory"),
        (Failure(code=2, tail=("a", "b", "c", "d")), r"code 2 \(b \| c \| d\)"),
    ],
)
def test_causes_with_a_remedy_are_told_apart(failure: Failure, expected: str) -> None:
    error = explain(failure, where="kueue", fix="start again")
    assert error.where == "kueue"
    with pytest.raises(LocalClusterError, match=expected):
        raise error


def test_a_child_gets_no_terminal_signal_of_ours() -> None:
    failure = Children().run([*SHELL, f"test $(ps -o sid= -p $$) -ne {os.getsid(0)}"])
    assert failure is None
