"""Kubernetes' own controllers and its scheduler as processes of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from muster.local.envtest.control_plane import ControlPlane
from muster.local.envtest.process import Process
from muster.local.envtest.programs import Programs

_PROGRAM: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"


@contextmanager
def controllers(
    plane: ControlPlane, programs: Programs, names: Sequence[str], *, flags: Sequence[str] = ()
) -> Iterator[Process]:
    """Run these controllers until the block ends. `flags`: more of the program's.

    They act some moments after they start: a caller that needs their result waits for it.
    """
    argv = [
        programs.program(_PROGRAM),
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(names)}",
        "--leader-elect=false",
        # It serves nothing that the tests ask for.
        "--secure-port=0",
        *flags,
    ]
    process = Process(_PROGRAM, argv, log=plane.folder / f"{_PROGRAM}.log")
    plane.settle()
    process.start()
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def scheduler(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Run the scheduler until the block ends."""
    argv = [programs.program(SCHEDULER), f"--kubeconfig={plane.kubeconfig()}"]
    argv += ["--leader-elect=false", "--secure-port=0"]
    process = Process(SCHEDULER, argv, log=plane.folder / f"{SCHEDULER}.log")
    plane.settle()
    process.start()
    try:
        yield process
    finally:
        process.kill()
