"""Kueue as a process in the place of its pod: with the pod's rights, configuration, certificate and address.

What its chart has made is used as it is: the ConfigMap, the ServiceAccount, the Secret that Kueue's own
certificate authority fills, the Services whose addresses are addresses of this machine.
"""

import base64
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import yaml

from muster.model import names
from tests.clouds.cluster.controllers import HOSTED, SERVED
from tests.clouds.cluster.visibility import visibility
from tests.envtest import ControlPlane, Programs
from tests.envtest.process import Process, free_port

_SPACE: Final = f"/api/v1/namespaces/{names.KUEUE_NAMESPACE}"
_PODS: Final = f"{_SPACE}/pods?labelSelector={HOSTED[0]}%3D{HOSTED[1]}"
_MERGE: Final = "application/merge-patch+json"


class HostedKueue:
    """`follow` again and again: it starts when its pods are there, and ends when they are gone."""

    def __init__(self, plane: ControlPlane, programs: Programs) -> None:
        self._plane, self._program = plane, programs.program("kueue")
        self._process: Process | None = None
        self._running = ExitStack()
        self._health = 0
        self._certificates = Path()

    def follow(self) -> None:
        pods = self._plane.call("GET", _PODS)["items"]
        if not pods:
            self.stop()
        elif self._process is None:
            self._start()
        else:
            self._mount()
            if not self._process.is_alive:
                # Its certificate authority ends it once, when the first certificate is there.
                self._process.kill()
                self._process.start()
            elif self._is_ready():
                self._tell(pods)

    def stop(self) -> None:
        self._running.close()
        self._process = None

    def _start(self) -> None:
        folder = self._plane.folder / f"kueue-{free_port()}"
        self._certificates = folder / "certificates"
        self._certificates.mkdir(parents=True)
        self._health = free_port()
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump(self._config()))
        account = f"{_SPACE}/serviceaccounts/kueue-controller-manager/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self._plane.call("POST", account, wanted)["status"]["token"]
        argv = [
            self._program,
            f"--config={file}",
            f"--kubeconfig={self._plane.kubeconfig(token, name='kueue')}",
        ]
        self._running.enter_context(visibility(self._address("kueue-visibility-server"), folder))
        process = Process("kueue", argv, log=self._plane.folder / "kueue.log")
        process.start()
        self._running.callback(process.kill)
        self._process = process

    def _config(self) -> dict[str, Any]:
        told = self._plane.call("GET", f"{_SPACE}/configmaps/kueue-manager-config")["data"]
        config: dict[str, Any] = yaml.safe_load(told["controller_manager_config.yaml"])
        webhook = {"host": self._address("kueue-webhook-service"), "port": 443}
        return config | {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {**webhook, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False},
            "featureGates": {**(config.get("featureGates") or {}), "VisibilityOnDemand": False},
        }

    def _address(self, service: str) -> str:
        return str(self._plane.call("GET", f"{_SPACE}/services/{service}")["spec"]["clusterIP"])

    def _mount(self) -> None:
        """As a kubelet does with a Secret."""
        data: Mapping[str, str] = (
            self._plane.call("GET", f"{_SPACE}/secrets/kueue-webhook-server-cert").get("data") or {}
        )
        for name, content in data.items():
            file = self._certificates / name
            wanted = base64.b64decode(content)
            if not file.exists() or file.read_bytes() != wanted:
                file.write_bytes(wanted)

    def _is_ready(self) -> bool:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=5) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def _tell(self, pods: list[dict[str, Any]]) -> None:
        for pod in pods:
            if SERVED not in (pod["metadata"].get("annotations") or {}):
                patch = {"metadata": {"annotations": {SERVED: "true"}}}
                with suppress(HTTPError):
                    self._plane.call(
                        "PATCH", f"{_SPACE}/pods/{pod['metadata']['name']}", patch, content_type=_MERGE
                    )
