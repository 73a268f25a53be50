"""A control plane on which random worlds run side by side: each has a scheduler of KAI of its own, all share
KAI's binder and KWOK's nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.local import kai
from muster.replay.kai_player import PROGRAM
from tests import built, envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.process import Process, free_port, running_process
from tests.integration.real_kai.programs import KAI_CRDS, SWITCH
from tests.integration.real_kai.random_worlds import WORLD_LABEL, RandomWorld, priority_classes
from tests.waiting import eventually

KAI: Final = "/apis/scheduling.run.ai"
_PROGRAMS: Final = ("etcd", "kube-apiserver", "kwok", "kai-scheduler", "kai-binder")
# Sessions without a change after which a scheduler has decided.
_QUIET_SESSIONS: Final = 4
_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    plane: ControlPlane
    programs: Programs

    def items(self, path: str, world: str) -> list[dict[str, Any]]:
        return list(self.plane.call("GET", f"{path}?labelSelector={WORLD_LABEL}%3D{world}")["items"])

    def create(self, world: RandomWorld) -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.name}}
        self.plane.call("POST", "/api/v1/namespaces", space)
        for path, objects in (
            ("/api/v1/nodes", world.nodes),
            (f"{KAI}/v2/queues", world.queues),
            (f"{KAI}/v2alpha2/namespaces/{world.name}/podgroups", world.groups),
            (f"/api/v1/namespaces/{world.name}/pods", world.pods),
        ):
            for each in objects:
                self.plane.call("POST", path, each)
        eventually(f"{world.name} runs", lambda: self._is_running(world.name))

    def _is_running(self, world: str) -> bool:
        return all(
            each["status"]["phase"] == "Running"
            for each in self.items("/api/v1/pods", world)
            if "nodeName" in each["spec"]
        )

    @contextmanager
    def scheduler(self, world: str, placement: Mapping[str, str]) -> Iterator[Scheduling]:
        """A scheduler of KAI for this world alone."""
        folder = self.plane.folder
        config = folder / f"{world}.yaml"
        config.write_text(
            yaml.safe_dump(kai.scheduler_config({"placementStrategy": placement})), encoding="utf-8"
        )
        flags = (
            *scheduler_flags(world),
            f"--scheduler-conf={config}",
            *kai.scheduler_flags(
                listen_port=free_port(), plugin_port=free_port(), period="200ms", verbosity=2
            ),
        )
        process = self.process("kai-scheduler", flags, log=folder / f"{world}.log")
        with running_process(process):
            yield Scheduling(self, world, process)

    def process(self, program: str, flags: Sequence[str], *, log: Path) -> Process:
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig())}
        return Process(program, [self.programs.program(program), *flags], log=log, environment=environment)

    def state(self, world: str) -> str:
        pods = self.items("/api/v1/pods", world)
        bindings = self.plane.call("GET", f"{KAI}/v1alpha2/namespaces/{world}/bindrequests")["items"]
        return str(
            [
                sorted((each["metadata"]["name"], each["spec"].get("nodeName")) for each in pods),
                sorted(each["metadata"]["name"] for each in bindings),
            ]
        )


@dataclass(frozen=True, slots=True)
class Scheduling:
    """A scheduler of one world, while it runs."""

    cluster: Cluster
    world: str
    process: Process

    @property
    def sessions(self) -> int:
        """How many have ended."""
        return self.process.log.read_text(errors="replace").count("End scheduling")

    def settle(self, on_poll: Callable[[], object] = lambda: None) -> None:
        """Until it changes nothing any more. `on_poll` plays what others than KAI do meanwhile."""
        end, seen, since = time.monotonic() + _SECONDS, "", 0
        while time.monotonic() < end:
            if not self.process.is_alive:
                # KAI 0.12.0 panics at some gangs by chance. A kubelet would start it again.
                self.process.start()
            on_poll()
            state, sessions = self.cluster.state(self.world), self.sessions
            if state != seen:
                seen, since = state, sessions
            elif sessions - since > _QUIET_SESSIONS:
                return
            time.sleep(0.1)
        said = self.process.log.read_text(errors="replace")[-3000:]
        pytest.fail(f"{self.world} did not settle: {said}")


def scheduler_flags(world: str) -> list[str]:
    return [f"--nodepool-label-key={WORLD_LABEL}", f"--partition-label-value={world}"]


@contextmanager
def running_cluster(folder: Path, *, has_player: bool = True) -> Iterator[Cluster]:
    if not os.environ.get(SWITCH):
        pytest.skip(f"real KAI is run on demand: build kai and {PROGRAM}, then {SWITCH}=1")
    wanted = (*_PROGRAMS, PROGRAM) if has_player else _PROGRAMS
    programs = built.programs(wanted, (KAI_CRDS, "kwok-stages"))
    with ExitStack() as stack:
        plane = stack.enter_context(envtest.control_plane(folder, programs, kinds=programs.kinds(KAI_CRDS)))
        for each in priority_classes():
            plane.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", each)
        stack.enter_context(envtest.kwok(plane, programs))
        found = Cluster(plane, programs)
        binder = found.process(
            "kai-binder", kai.controller_flags()["kai-binder"], log=plane.folder / "kai-binder.log"
        )
        binder.start()
        stack.callback(binder.kill)
        yield found
        assert binder.is_alive, binder.log.read_text(errors="replace")[-3000:]
