"""The plane of one trial: an empty etcd and API server of its own, Kueue, and the check that is compared.

Every trial begins on the same empty plane, so the order of trials changes nothing. All of it is gone with the
block, however that ends.
"""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.gangs import audit
from bench.gangs.shapes import Shape
from bench.gangs.usage import quiet
from bench.gangs.variants import Contender
from muster.errors import ExitCode, MusterError
from muster.model import names
from muster.model.stack import GangMode
from tests import envtest
from tests.envtest import ControlPlane, Programs, path_of
from tests.envtest.kueue import define
from tests.envtest.process import Process, free_port

CHART: Final = "kueue-chart"
NEEDED: Final = (("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd", CHART))
_READY_SECONDS: Final = 120.0
_PAUSE: Final = 0.1
# Otherwise the API server taints each new Node as not ready, and no controller is there to take that away.
_BORN_READY: Final = "--disable-admission-plugins=TaintNodesByCondition"
_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"


class StageError(MusterError):
    """The control plane did not start or stopped. The message names the process."""

    default_exit_code = ExitCode.OUTSIDE


@dataclass(slots=True)
class Stage:
    """A plane on which gangs can be put. `processes`: the controllers under comparison, by name."""

    plane: ControlPlane
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return audit.log_of(self.plane.folder)

    def pids(self) -> dict[str, int]:
        """Of everything that runs, the API server and its store with it."""
        found = {**self.processes, "kube-apiserver": self.plane.server, "etcd": self.plane.store}
        return {name: each.pid for name, each in found.items() if each.pid is not None}


@contextmanager
def bare_stage(folder: Path, programs: Programs, contender: Contender, shape: Shape) -> Iterator[Stage]:
    """The plane with everything that is written before a controller starts."""
    with envtest.control_plane(folder, programs, flags=(*audit.flags(folder), _BORN_READY)) as plane:
        define(plane, programs)
        kinds, others = _split(contender.objects(shape))
        plane.define(kinds)
        _namespace(plane, names.SYSTEM_NAMESPACE)
        for item in others:
            plane.apply(json.loads(json.dumps(item)), path_of(item))
        yield Stage(plane)


@contextmanager
def full_stage(folder: Path, programs: Programs, contender: Contender, shape: Shape) -> Iterator[Stage]:
    """With Kueue and, where it is compared, our manager, both idle and ready."""
    with bare_stage(folder, programs, contender, shape) as stage, ExitStack() as stack:
        config = contender.kueue_config(programs.assets[CHART])
        stage.processes["kueue"] = stack.enter_context(envtest.kueue(stage.plane, programs, config=config))
        if contender.mode is GangMode.MUSTER:
            stage.processes["manager"] = stack.enter_context(program(stage.plane, "manager"))
        await_(lambda: _all_active(stage.plane), "the checks and the queues are active")
        quiet(*(process.pid for process in stage.processes.values() if process.pid is not None))
        yield stage


@contextmanager
def program(plane: ControlPlane, command: str, *extra: str, health: int | None = None) -> Iterator[Process]:
    """One of our controller's two programs, until the block ends."""
    argv = [sys.executable, "-m", "muster.controller", command, f"--kubeconfig={_kubeconfig(plane)}"]
    argv += [f"--health-port={health or free_port()}", *extra]
    process = Process(command, argv, log=plane.folder / f"{command}.log")
    process.start()
    try:
        yield process
    finally:
        process.kill()


def await_(
    reached: Callable[[], bool], what: str, *, seconds: float = _READY_SECONDS, pause: float = _PAUSE
) -> None:
    """A refused call means "not yet": Kueue changes its CRDs when it starts, and they are not served then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            if reached():
                return
        time.sleep(pause)
    raise StageError(f"after {seconds:.0f} s not yet: {what}; see the logs, or give it more time")


def _all_active(plane: ControlPlane) -> bool:
    listed = [plane.call("GET", f"{_KUEUE}/{kind}")["items"] for kind in ("admissionchecks", "clusterqueues")]
    return all(items and all(map(_is_active, items)) for items in listed)


def _is_active(item: dict[str, Any]) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)


def _split(objects: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    kinds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    return kinds, [each for each in objects if each not in kinds]


def _namespace(plane: ControlPlane, name: str) -> None:
    item = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    plane.apply(item, path_of(item))


def _kubeconfig(plane: ControlPlane) -> Path:
    """In JSON, as our controller reads it, with the authority in it."""
    bundle = base64.b64encode(plane.certificate.read_bytes()).decode()
    cluster = {"server": plane.url, "certificate-authority-data": bundle}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bare",
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "bare"}}],
        "clusters": [{"name": "bare", "cluster": cluster}],
        "users": [{"name": "bare", "user": {"token": plane.token}}],
    }
    path = plane.folder / "controller.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path
