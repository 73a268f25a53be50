"""A local cluster with stack `local`, as the tests use it: pulumi, the API, cloud faults, signals.

Brings up a local cluster of its own, or takes the standing one that MUSTER_E2E_PLANE
names and leaves it standing.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from muster.local import LocalClusterError
from muster.local.cluster import control
from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.demo.cluster import Cluster, Object
from muster.local.demo.events import name_of
from tests.e2e.recorder import KINDS, Recorder

ROOT: Final = Path(__file__).resolve().parent.parent.parent
STANDING: Final = os.environ.get("MUSTER_E2E_PLANE")
OWN: Final = "e2e"
TEAMS: Final = ("team-a", "team-b", "team-c")
# A client of the API that lost its server several times within two minutes tries again after up to a
# minute, each of its watches by itself (client-go's reflector). What goes through Kueue, the endpoints of
# its webhooks, KubeRay, the scheduler and a kubelet adds these up. A wait that ends early costs nothing.
PATIENCE: Final = 600.0  # seconds
_BOOT: Final = 2400.0  # seconds: an empty cache is filled first
_MOMENT: Final = 60.0
GPU_POOLS: Final = ("l4", "h100")
# Cluster-wide objects that a destroyed stack must not leave behind.
_CLUSTER_WIDE: Final = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,apiservices,priorityclasses,"
    "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings"
)


@dataclass(slots=True)
class Muster:
    """One local cluster and everything that the tests do to it."""

    name: str
    environment: dict[str, str]
    cluster: Cluster
    recorder: Recorder
    before: frozenset[str]
    """The cluster-wide objects before the first `pulumi up`; empty on a standing local cluster."""

    @property
    def is_own(self) -> bool:
        return STANDING is None

    def image(self, name: str) -> str:
        images = json.loads(Path(self.environment["MUSTER_ARTIFACTS"]).read_text())["images"]
        return str(images[name])

    def pulumi(self, *arguments: str, timeout: float = PATIENCE) -> str:
        """The real CLI on the checkout; AssertionError with its output when it fails."""
        return run(["pulumi", *arguments, "--non-interactive"], self.environment, timeout=timeout)

    def story(self, *arguments: str, timeout: float = 600) -> list[Object]:
        """`muster local story`; its JSON lines, which are printed too."""
        command = [
            sys.executable,
            "-m",
            "muster",
            "local",
            "story",
            *arguments,
            "--json",
            f"--timeout={timeout:.0f}",
        ]
        told = run(command, self.environment, timeout=timeout + 60)
        return [json.loads(line) for line in told.splitlines()]

    def wait(self, what: str, reached: Callable[[], object], *, seconds: float = PATIENCE) -> None:
        assert self.recorder.wait(reached, seconds=seconds), f"after {seconds:.0f} s not yet: {what}"

    def catch_up(self) -> None:
        """Until the record knows all that there is: when the API server has died, each watch comes back by
        itself, and one may have told the end of a story before another has told its beginning.
        """
        for kind in KINDS:
            for found in self.cluster.all(kind):
                known = partial(self.recorder.knows, kind, found)
                self.wait(f"the record knows {kind} {name_of(found)}", known)

    def signal(self, unit: str, number: int) -> None:
        """To the process; where the last one has just died, to the one that follows it."""
        found = existing(self.name)
        assert found is not None
        self.wait(f"{unit} runs and gets signal {number}", partial(_signalled, found[0], unit, number))

    def fault(self, name: str, **entry: Any) -> None:
        """Breaks the simulated cloud until the test ends."""
        self.cluster.patch(
            "ConfigMap", "faults", {"data": {name: json.dumps(entry)}}, namespace="muster-plane"
        )

    def capacity(self, **stock: int) -> None:
        self.cluster.patch(
            "ConfigMap", "faults", {"data": {"capacity": json.dumps(stock)}}, namespace="muster-plane"
        )

    def heal(self) -> None:
        found = self.cluster.get("ConfigMap", "faults", namespace="muster-plane") or {}
        cleared = dict.fromkeys(found.get("data") or {})
        if cleared:
            self.cluster.patch("ConfigMap", "faults", {"data": cleared}, namespace="muster-plane")

    def sweep(self) -> None:
        """Leaves no job, no request and no GPU node of an earlier test, and begins a new chapter."""
        self.heal()
        for kind in ("RayJob", "RayCluster", "Job"):
            for found in self.cluster.all(kind):
                meta = found["metadata"]
                self.cluster.delete(kind, meta["name"], namespace=meta["namespace"])
        self.wait("no job, Workload, request or GPU node of an earlier test", self._is_swept)
        self.recorder.mark()

    def _is_swept(self) -> bool:
        now = self.recorder.now()
        left = [now.of(kind) for kind in ("RayJob", "RayCluster", "Job", "Workload", "ProvisioningRequest")]
        return not any(left) and not self.gpu_nodes()

    def gpu_nodes(self) -> list[Object]:
        nodes = self.recorder.now().of("Node")
        return [node for node in nodes if node["metadata"]["labels"].get("muster.dev/pool") in GPU_POOLS]

    def cluster_wide(self) -> frozenset[str]:
        return _cluster_wide(self.environment)

    def left_behind(self, before: frozenset[str]) -> frozenset[str]:
        """Cluster-wide objects that were not there before. The API server forgets the APIService of a group a
        moment after the last of its kinds is gone.
        """
        self.recorder.wait(lambda: self.cluster_wide() <= before, seconds=_MOMENT)
        return self.cluster_wide() - before


def _signalled(cluster: LocalCluster, unit: str, number: int) -> bool:
    try:
        control.call(cluster, "signal", unit=unit, signal=number)
    except LocalClusterError as error:
        print(error, flush=True)
        return False
    return True


def run(command: list[str], environment: dict[str, str], *, timeout: float) -> str:
    """Standard output; printed, so that a failing test shows it. AssertionError on a failure."""
    begun = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    print(f"$ {shlex.join(command)}\n{done.stdout}\n[{time.monotonic() - begun:.1f} s]", flush=True)
    assert done.returncode == 0, (
        f"{shlex.join(command[:4])}: exit code {done.returncode}\n{done.stdout[-4000:]}"
    )
    return done.stdout


def bring_up() -> Muster:
    name = STANDING or OWN
    here = dict(os.environ)
    try:
        if STANDING is None:
            run([sys.executable, "-m", "muster", "local", "up", "--name", name], here, timeout=_BOOT)
        lines = run([sys.executable, "-m", "muster", "local", "env", "--name", name], here, timeout=PATIENCE)
        environment = {**here, **exports(lines)}
        before = _cluster_wide(environment) if STANDING is None else frozenset()
        cluster = Cluster(environment["KUBECONFIG"])
        muster = Muster(name, environment, cluster, Recorder(environment["KUBECONFIG"]), before)
        muster.pulumi("stack", "select", "--create", "local")
        muster.pulumi("up", "--yes", "--skip-preview", "--stack", "local", timeout=_BOOT)
        muster.recorder.start()
    except BaseException:
        # What did not come up in time would compute beside every suite that follows.
        _remove(name)
        raise
    return muster


def take_down(muster: Muster) -> None:
    muster.recorder.stop()
    _remove(muster.name)


def _remove(name: str) -> None:
    if STANDING is None:
        down = [sys.executable, "-m", "muster", "local", "down", "--name", name]
        run(down, dict(os.environ), timeout=PATIENCE)


def exports(lines: str) -> dict[str, str]:
    words = [shlex.split(line) for line in lines.splitlines() if line.startswith("export ")]
    return dict(word[1].split("=", 1) for word in words)


def _cluster_wide(environment: dict[str, str]) -> frozenset[str]:
    return frozenset(
        run(["kubectl", "get", _CLUSTER_WIDE, "-o", "name"], environment, timeout=PATIENCE).split()
    )
