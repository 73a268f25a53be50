"""KWOK as a process of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.local.envtest.control_plane import ControlPlane
from muster.local.envtest.process import Process, free_port
from muster.local.envtest.programs import Programs
from muster.local.kwok import ENDLESS_STAGES, STAGES, flags


@contextmanager
def kwok(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Keep every annotated node alive until the block ends."""
    found = flags(plane.kubeconfig(), programs.assets[STAGES], ENDLESS_STAGES, port=free_port())
    process = Process("kwok", [programs.program("kwok"), *found], log=plane.folder / "kwok.log")
    process.start()
    try:
        yield process
    finally:
        process.kill()
