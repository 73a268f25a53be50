"""KAI on a local cluster: its kinds, its programs as supervised processes, and what its operator would do.

The operator runs a scheduler for each SchedulingShard. Here `main` does, in a process of its own.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import load_access
from muster.local import LocalClusterError, kai
from muster.local.builder.store import Artifacts
from muster.local.cluster.certificates import Authority
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.network import Kubectl
from muster.local.cluster.units import ReadinessGate, Unit
from muster.model import names
from muster.paths import IMPORT_ROOT

Manifest = dict[str, Any]

_WEBHOOK_HOST: Final = "127.0.0.1"
_WEBHOOK_PORT: Final = 10280
_FIRST_PORT: Final = 10290  # of the first scheduler's metrics; the next one is its plugins'
_POLL: Final = 1.0
_RBAC: Final = "rbac.authorization.k8s.io"
_NAMESPACES: Final = (names.KAI_NAMESPACE, kai.RESERVATIONS)


def units(
    cluster: LocalCluster,
    artifacts: Artifacts,
    kubeconfigs: Mapping[str, Path],
    *,
    operator: Path,
    authority: Authority,
) -> list[Unit]:
    """Every program with the rights of its own account. `kubeconfigs`: program -> file; a program starts when
    its file appears. `operator`: a kubeconfig that may read SchedulingShards. `authority` signs for the
    webhook.
    """
    programs = {program: str(artifacts.programs[program]) for program in kai.PROGRAMS}
    flags = {
        **kai.controller_flags(label_key=names.POOL_LABEL),
        kai.ADMISSION: kai.admission_flags(_WEBHOOK_PORT),
    }
    flags[kai.BINDER] += (
        f"--resource-reservation-pod-image={artifacts.images[kai.RESERVATION].reference}",
        # Until 0.15 two at once may delete the pod that holds a shared GPU (KAI#1103).
        "--max-concurrent-reconciles=1",
    )
    # The webhook looks for its certificate in a folder of this name below the one for temporary files.
    folder = cluster.run / "kai"
    serving = folder / "k8s-webhook-server" / "serving-certs"
    serving.mkdir(parents=True)
    authority.issue(serving / "tls", kai.ADMISSION, hosts=(_WEBHOOK_HOST,))
    runner = (
        *(sys.executable, "-m", "muster.local.cluster.kai"),
        f"--operator={operator}",
        f"--scheduler={kubeconfigs[kai.SCHEDULER]}",
        f"--program={programs[kai.SCHEDULER]}",
        f"--logs={cluster.logs}",
    )
    gates = {program: ReadinessGate(file=path, api_ready=True) for program, path in kubeconfigs.items()}
    controllers = [
        Unit(
            program,
            (programs[program], *options),
            after=gates[program],
            environment={"KUBECONFIG": str(kubeconfigs[program]), "TMPDIR": str(folder)},
        )
        for program, options in flags.items()
    ]
    surroundings = {"PYTHONPATH": str(IMPORT_ROOT)}
    return [
        Unit(kai.SHARD_RUNNER, runner, after=gates[kai.SCHEDULER], environment=surroundings),
        *controllers,
    ]


def define(kubectl: Kubectl, artifacts: Artifacts, authority: Authority) -> None:
    """The kinds, the accounts with their rights, and the webhook of pods, whose server `authority` vouches
    for.
    """
    kubectl.define(artifacts.assets[kai.CRDS])
    kubectl.apply(accounts(artifacts.assets[kai.ROLES]))
    kubectl.apply(webhooks(authority.pair.certificate.read_bytes()))


def accounts(roles: Path) -> list[Manifest]:
    """KAI's namespaces, and each program's ServiceAccount with the ClusterRole of KAI's chart. That of
    reservation pods has it in its namespace alone.
    """
    objects: list[Manifest] = [_object("v1", "Namespace", name) for name in _NAMESPACES]
    for program in kai.PROGRAMS.values():
        objects += _account(roles / program.role, program.account, names.KAI_NAMESPACE, "ClusterRoleBinding")
    role = roles / "resourcereservation.yaml"
    return [*objects, *_account(role, kai.RESERVATIONS, kai.RESERVATIONS, "RoleBinding")]


def _account(file: Path, account: str, namespace: str, kind: str) -> list[Manifest]:
    """With the role in `file`, by a binding of this kind."""
    role = yaml.safe_load(file.read_text(encoding="utf-8"))
    name = role["metadata"]["name"]
    place = {} if kind == "ClusterRoleBinding" else {"namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    return [
        _object("v1", "ServiceAccount", account, namespace=namespace),
        role,
        {**_object(f"{_RBAC}/v1", kind, name, **place), "subjects": [subject], "roleRef": reference},
    ]


def webhooks(authority: bytes) -> list[Manifest]:
    """Of pods, as KAI's operator registers them (KAI 0.12.0, pkg/operator/operands/admission). `authority`:
    the certificate in PEM by which the API server knows the program.
    """
    hooks: tuple[tuple[str, str, list[str], Manifest], ...] = (
        ("Mutating", "mutate", ["CREATE"], {"reinvocationPolicy": "IfNeeded"}),
        ("Validating", "validate", ["CREATE", "UPDATE"], {}),
    )
    others = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", names.KAI_NAMESPACE],
    }
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "Namespaced"}
    return [
        {
            **_object("admissionregistration.k8s.io/v1", f"{kind}WebhookConfiguration", kai.ADMISSION),
            "webhooks": [
                {
                    "name": f"{kai.ADMISSION}.{names.KAI_NAMESPACE}.svc",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "namespaceSelector": {"matchExpressions": [others]},
                    "clientConfig": {
                        "url": f"https://{_WEBHOOK_HOST}:{_WEBHOOK_PORT}/{verb}--v1-pod",
                        "caBundle": base64.b64encode(authority).decode(),
                    },
                    "rules": [{**pods, "operations": operations}],
                    **more,
                }
            ],
        }
        for kind, verb, operations, more in hooks
    ]


def _object(version: str, kind: str, name: str, **metadata: str) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


# The schedulers, as KAI's operator would run them.


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A shard's process, and the settings with which it was started."""

    spec: Manifest
    label_key: str
    port: int
    process: Process


class Schedulers:
    """One scheduler for each shard. `folder` gets the configuration files, `logs` what they print."""

    def __init__(self, program: str, kubeconfig: Path, *, folder: Path, logs: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._folder = folder
        self._logs = logs
        self._running: dict[str, Scheduler] = {}

    def converge(self, shards: Mapping[str, Manifest]) -> None:
        """Start what is missing, what has ended, and what has other settings now. `shards`: name -> spec."""
        is_parted = any(spec.get("partitionLabelValue") for spec in shards.values())
        label_key = names.POOL_LABEL if is_parted else ""
        for name, running in [*self._running.items()]:
            is_current = shards.get(name) == running.spec and running.label_key == label_key
            if not is_current or not running.process.is_alive:
                running.process.kill()
                del self._running[name]
        for name, spec in shards.items():
            if name not in self._running:
                self._running[name] = self._started(name, spec, label_key)

    def _started(self, name: str, spec: Manifest, label_key: str) -> Scheduler:
        config = self._folder / f"kai-shard-{name}.yaml"
        config.write_text(yaml.safe_dump(kai.scheduler_config(spec)), encoding="utf-8")
        taken = {each.port for each in self._running.values()}
        port = next(port for port in count(_FIRST_PORT, 2) if port not in taken)
        argv = [
            self._program,
            f"--scheduler-conf={config}",
            *kai.shard_flags(spec, label_key=label_key),
            *kai.scheduler_flags(listen_port=port, plugin_port=port + 1, period="1s", verbosity=3),
        ]
        print(f"shard {name} starts with {json.dumps(spec)}", flush=True)
        log = self._logs / f"{kai.SCHEDULER}@{name}.log"
        process = Process(kai.SCHEDULER, argv, log=log, environment=self._environment)
        process.start()
        return Scheduler(spec, label_key, port, process)


def main() -> None:
    parser = argparse.ArgumentParser(description="KAI's schedulers; started by `muster local up`.")
    parser.add_argument("--operator", type=Path, required=True, help="kubeconfig that may read the shards")
    parser.add_argument("--scheduler", type=Path, required=True, help="kubeconfig of the schedulers")
    parser.add_argument("--program", required=True)
    parser.add_argument("--logs", type=Path, required=True)
    arguments = parser.parse_args()
    client = Client(load_access(arguments.operator))
    schedulers = Schedulers(
        arguments.program, arguments.scheduler, folder=arguments.operator.parent, logs=arguments.logs
    )
    while True:
        try:
            items = client.call("GET", kai.SHARDS)["items"]
            schedulers.converge({each["metadata"]["name"]: each["spec"] for each in items})
        except (ApiError, UnreachableError) as error:
            print(f"the shards cannot be read: {error}", flush=True)
        time.sleep(_POLL)


# A child process: started, watched until it is ready, and ended with the caller.


# A killed process with gigabytes takes its time to go on a machine that has much else to do.
_GRACE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_TAIL_BYTES: Final = 2000


class Process:
    """A program with its log. `start` after `kill` brings it back with the same arguments."""

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, *also: str) -> None:
        """In a process group of its own, so that a Ctrl-C reaches it only through us. `also`: arguments for
        this time only.
        """
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [*self._argv, *also],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                process_group=0,
            )
        # A killed caller cannot clean up. The end of its pipe is the sign. (The kernel's own sign, PDEATHSIG,
        # comes when the starting thread ends, which may be long before.)
        self._guard = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; kill -9 -"$0" 2>/dev/null', str(self._child.pid)],
            stdin=subprocess.PIPE,
            process_group=0,
        )

    def await_(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return when it is ready. Raise LocalClusterError when it ends first or at the timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_alive:
                raise LocalClusterError(
                    self.name, f"ended by itself:\n{self._tail()}", fix="see its log above"
                )
            with suppress(OSError, ValueError):
                if ready():
                    return
            time.sleep(_PAUSE_SECONDS)
        raise LocalClusterError(
            self.name, f"is not ready after {seconds:.0f} s:\n{self._tail()}", fix="see its log above"
        )

    def stop(self, *, seconds: float = 60.0) -> None:
        """Ask it to end, and wait until it has; LocalClusterError when it does not."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            message = f"does not end within {seconds:.0f} s:\n{self._tail()}"
            raise LocalClusterError(self.name, message, fix="see its log above") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """A power cut."""
        if self._child is not None and self._guard is not None:
            self._child.kill()
            self._child.wait(_GRACE_SECONDS)
            self._guard.communicate(timeout=_GRACE_SECONDS)
            self._child = self._guard = None

    @property
    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def _tail(self) -> str:
        text = self.log.read_bytes()[-_TAIL_BYTES:] if self.log.exists() else b""
        return text.decode(errors="replace")


if __name__ == "__main__":
    main()
