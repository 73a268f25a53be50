"""The local cluster's own kubectl, for the few objects that make a bare control plane a cluster."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from muster.local.cluster.local_cluster import LocalCluster
from muster.local.errors import LocalClusterError

Manifest = dict[str, Any]


class Kubectl:
    """Runs the pinned kubectl against one local cluster; every call has a timeout."""

    def __init__(self, cluster: LocalCluster, program: str) -> None:
        self._base = [program, f"--kubeconfig={cluster.kubeconfig}", "--request-timeout=20s"]

    def apply(self, objects: list[Manifest]) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.run(
            "apply",
            "--server-side",
            "--field-manager=muster-local-plane",
            "-f",
            "-",
            stdin=document,
            timeout=60,
        )

    def get(self, *arguments: str) -> Manifest:
        answer: Manifest = json.loads(self.run("get", *arguments, "-o", "json"))
        return answer

    def wait(self, *arguments: str, seconds: int) -> None:
        self.run("wait", *arguments, f"--timeout={seconds}s", timeout=seconds + 10)

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 30) -> str:
        try:
            done = subprocess.run(
                [*self._base, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalClusterError(
                "kubectl " + " ".join(arguments[:2]),
                f"gave no answer in {timeout:.0f} s",
                fix="muster local status",
            ) from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise LocalClusterError("kubectl " + " ".join(arguments[:2]), last, fix="muster local status")
        return done.stdout
