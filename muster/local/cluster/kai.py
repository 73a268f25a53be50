"""KAI on a local cluster: its kinds, its programs as supervised processes, and what its operator would do.

The operator runs a scheduler for each SchedulingShard. Here `main` does, in a process of its own.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import load_access
from muster.local import kai
from muster.local.builder.store import Artifacts
from muster.local.cluster.certificates import Authority
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.network import Kubectl
from muster.local.cluster.units import ReadinessGate, Unit
from muster.local.process import Process
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


if __name__ == "__main__":
    main()
