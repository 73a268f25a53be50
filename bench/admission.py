"""What a team's member waits for the admission of a RayJob, with Muster's policies and webhooks and without.

    python -m bench.admission --rate 20 --seconds 10 --rounds 3

An API server of its own with Ray's real kinds and everything that stack `local` gives a team. RayJobs are
created at a steady rate as a member, as a dry run and really, without policies, with all of them, and with
the webhooks as well: in turn, in each round. Then every policy alone: the time that the API server spends in
its admission plugin for policies (apiserver_admission_controller_admission_duration_seconds), because its
metric of single policies counts only what they refuse; and its CPU time for the whole creation. No Kueue and
no ResourceQuota are there.
"""

import argparse
import asyncio
import json
import os
import re
import ssl
import statistics
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.gangs.figures import percentile
from bench.gangs.stage import StageError, await_, program
from bench.gangs.usage import usage
from bench.steady_rate import Answer, Server, request, send
from muster.components import gang_admission, gang_authority
from muster.config import load
from muster.model import gangpolicy, names, queuetree
from muster.model.stack import Stack
from muster.paths import stack_file
from muster.render import gang, queues, ray, tenancy
from muster.render import queuetree as rendered
from tests import envtest
from tests.envtest import ControlPlane, path_of
from tests.envtest.process import free_port

Object = dict[str, Any]

_KUBERAY: Final = "kuberay-config"
_NEEDED: Final = (("etcd", "kube-apiserver"), ("kueue-crds", "provisioningrequest-crd", _KUBERAY))
_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
_TEAM: Final = "team-a"
_WARM_UP: Final = 40
_ALONE: Final = 200
"""Creations by which one policy is measured."""
# Of no use without a scheduler, or counted by a controller that is not here.
_LEFT_OUT: Final = ("ClusterQueue", "Cohort", "Queue", "ResourceQuota")
_METRIC: Final = re.compile(
    r"apiserver_admission_controller_admission_duration_seconds_(?P<what>sum|count)"
    r'{name="ValidatingAdmissionPolicy",operation="CREATE",rejected="false",type="validate"} (?P<value>\S+)'
)


@dataclass(frozen=True, slots=True)
class Spent:
    """By the API server in policies, for so many creations."""

    seconds: float
    creations: int

    def since(self, before: "Spent") -> float:
        """Milliseconds a creation."""
        return 1000 * (self.seconds - before.seconds) / max(1, self.creations - before.creations)


def spent(metrics: str) -> Spent:
    """What the API server's /metrics say."""
    found = {match["what"]: float(match["value"]) for match in _METRIC.finditer(metrics)}
    return Spent(found.get("sum", 0.0), int(found.get("count", 0.0)))


@dataclass(slots=True)
class Bench:
    """A plane with a team on it, and the policies that can be put in force."""

    plane: ControlPlane
    stack: Stack
    token: str
    policies: dict[str, list[Object]]
    numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def in_force(self, chosen: Sequence[str]) -> Iterator[None]:
        """These policies and no others, until the block ends."""
        bindings = [self.policies[name][1] for name in chosen]
        for each in bindings:
            self.plane.apply(each, path_of(each))
        self._settle()
        try:
            yield
        finally:
            for each in bindings:
                self.plane.call("DELETE", path_of(each))
            self._settle()

    @contextmanager
    def webhooks(self) -> Iterator[None]:
        """Our webhooks in front of the API server, until the block ends."""
        port, health = free_port(), free_port()
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        meta = {"name": gang_authority.WEBHOOKS, "namespace": names.SYSTEM_NAMESPACE}
        self._apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
        configurations = [
            _configuration("Validating", gang_admission.validating(self.stack), port),
            _configuration("Mutating", gang_admission.mutating(self.stack), port),
        ]
        for each in configurations:
            self._apply(each)
        flags = [f"--{kind}={gang_authority.PROGRAM}" for kind in ("validating", "mutating")]
        # Refused by the policies, unless a webhook has written the queue into it.
        bare = self.ray_job("bare")
        del bare["metadata"]["labels"][names.QUEUE_LABEL]
        with (
            program(self.plane, "manager", *flags),
            program(self.plane, "webhooks", f"--webhook-port={port}", health=health),
        ):
            try:
                await_(lambda: _is_ready(health), "the webhooks are ready")
                await_(lambda: not self._refusal(bare), "the API server asks the webhooks")
                yield
            finally:
                for each in configurations:
                    self.plane.call("DELETE", path_of(each))
                await_(lambda: "queue" in self._refusal(bare), "the API server asks no webhook")

    def ray_job(self, name: str) -> Object:
        """A head and two workers with a GPU each, as a user would write it."""
        toleration = {"key": names.GPU_TAINT_KEY, "operator": "Exists"}
        worker = _pods(tolerations=[toleration], gpus="1")
        group = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, **worker}
        cluster = {
            "rayVersion": "2.54.0",
            "authOptions": {"mode": "token"},
            "headGroupSpec": _pods(),
            "workerGroupSpecs": [group],
        }
        spec = {"entrypoint": "python train.py", "submissionMode": "HTTPMode", "suspend": True}
        spec |= {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
        labels = {names.QUEUE_LABEL: names.DEFAULT_LOCAL_QUEUE, names.PRIORITY_LABEL: "dev"}
        meta = {"name": name, "namespace": _TEAM, "labels": labels}
        return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec}

    def create(self, creations: int, *, rate: float, dry_run: bool, warm_up: int = _WARM_UP) -> list[Answer]:
        path = f"/apis/ray.io/v1/namespaces/{_TEAM}/rayjobs" + ("?dryRun=All" if dry_run else "")
        address = urlsplit(self.plane.url)
        headers = {"Host": address.netloc, "Authorization": f"Bearer {self.token}"}
        requests = [
            request("POST", path, json.dumps(self.ray_job(f"train-{next(self.numbers)}")).encode(), **headers)
            for _ in range(warm_up + creations)
        ]
        tls = ssl.create_default_context(cafile=str(self.plane.certificate))
        server = Server(port=address.port or 443, name=address.hostname or "", tls=tls)
        answers = asyncio.run(send(server, requests, rate=rate, warm_up=warm_up))
        for answer in answers:
            if answer.status != 201:
                raise StageError(f"a RayJob was refused: {answer.status} {answer.body.decode()[:500]}")
        return answers

    def spent(self) -> Spent:
        return spent(_get(f"{self.plane.url}/metrics", self.plane))

    def cpu(self) -> float:
        """Seconds that the API server has used. What the machine does besides counts for less."""
        return usage(self.plane.server.pid or 0).cpu

    def _settle(self) -> None:
        """Until the API server has taken up every change of a binding: all policies are taken up together,
        and the last one refuses a ConfigMap of its own.
        """
        name = f"settled-{next(self.numbers)}"
        for each in _marker(name):
            self._apply(each)
        at = f"/api/v1/namespaces/{_TEAM}/configmaps?dryRun=All"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await_(lambda: name in self._refusal(body, at), "the API server has taken up the policies")
        for each in reversed(_marker(name)):
            self.plane.call("DELETE", path_of(each))

    def _refusal(self, body: Object, at: str = "") -> str:
        try:
            self.plane.call("POST", at or f"/apis/ray.io/v1/namespaces/{_TEAM}/rayjobs?dryRun=All", body)
        except urllib.error.HTTPError as refused:
            return refused.read().decode(errors="replace")
        return ""

    def _apply(self, body: Object) -> None:
        self.plane.apply(json.loads(json.dumps(body)), path_of(body))


def main() -> None:
    options = _options()
    found = envtest.found(*_NEEDED)
    if found is None:
        missing = ", ".join(envtest.missing(*_NEEDED))
        raise StageError(f"not built yet: {missing}", fix="run `make build`")
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        envtest.control_plane(Path(folder), found) as plane,
    ):
        plane.define([*found.kinds("kueue-crds"), *found.kinds("provisioningrequest-crd")])
        plane.define([*found.kinds(_KUBERAY, below="crd/bases"), gangpolicy.crd(), queuetree.crd()])
        bench = _populated(plane, load(stack_file("local")))
        print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before the first round\n")
        _waits(bench, options)
        _costs(bench, options)
        print(f"\nload average {os.getloadavg()[0]:.1f} after the last round")


def _waits(bench: Bench, options: argparse.Namespace) -> None:
    taken: dict[tuple[str, bool], list[list[float]]] = {}
    everything = list(bench.policies)
    stages = {"no policies": ([], False), "all policies": (everything, False)}
    stages["policies and webhooks"] = (everything, True)
    for number in range(options.rounds):
        for what, (chosen, is_reviewed) in stages.items():
            with bench.in_force(chosen), bench.webhooks() if is_reviewed else nullcontext():
                _round(bench, options, what, taken)
            print(f"round {number + 1}: {what}", file=sys.stderr, flush=True)
    print("| admission | creation | p50, ms | p99, ms | slowest, ms | creations a round | rounds |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (what, dry_run), rounds in taken.items():
        figures = [spread([1000 * percentile(each, percent) for each in rounds]) for percent in (50, 99)]
        figures.append(spread([1000 * max(each) for each in rounds]))
        kind = "dry run" if dry_run else "real"
        print(f"| {what} | {kind} | {' | '.join(figures)} | {len(rounds[0])} | {len(rounds)} |")
    print(flush=True)


def _round(
    bench: Bench, options: argparse.Namespace, what: str, taken: dict[tuple[str, bool], list[list[float]]]
) -> None:
    creations = int(options.rate * options.seconds)
    for dry_run in (True, False):
        answers = bench.create(creations, rate=options.rate, dry_run=dry_run)
        taken.setdefault((what, dry_run), []).append([answer.seconds for answer in answers])


def _costs(bench: Bench, options: argparse.Namespace) -> None:
    """Each policy alone, none and all of them, in each round."""
    sets = {"none": [], **{name: [name] for name in bench.policies}, "all": list(bench.policies)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sets}
    for number in range(options.rounds):
        for name, chosen in sets.items():
            with bench.in_force(chosen):
                bench.create(_WARM_UP, rate=10 * options.rate, dry_run=True)
                before, used = bench.spent(), bench.cpu()
                bench.create(_ALONE, rate=2 * options.rate, dry_run=True, warm_up=0)
                found[name].append((bench.spent().since(before), 1000 * (bench.cpu() - used) / _ALONE))
        print(f"round {number + 1}: each policy alone", file=sys.stderr, flush=True)
    print("| in force | ms a creation in policies | CPU of the API server, ms | rules, variables | rounds |")
    print("|---|---:|---:|---:|---:|")
    for name, each in found.items():
        columns = " | ".join(spread(column, digits=2) for column in zip(*each, strict=True))
        print(f"| `{name}` | {columns} | {_size(bench, sets[name])} | {len(each)} |")


def _size(bench: Bench, chosen: Sequence[str]) -> str:
    specs = [bench.policies[name][0]["spec"] for name in chosen]
    counts = [sum(len(spec.get(key, ())) for spec in specs) for key in ("validations", "variables")]
    return ", ".join(map(str, counts))


def spread(values: Sequence[float], *, digits: int = 1) -> str:
    median, least, most = (
        f"{each:.{digits}f}" for each in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({least} to {most})"


def _populated(plane: ControlPlane, stack: Stack) -> Bench:
    """The team's namespace, rights and defaults, the objects that the webhooks read, and the policies, of
    which none is in force.
    """
    objects = [_namespace(names.SYSTEM_NAMESPACE), tenancy.member_role(stack)]
    for teams in queues.by_department(stack).values():
        objects += [body for bodies in teams.values() for body in bodies if body["kind"] not in _LEFT_OUT]
    objects += [gang.policy(stack), rendered.tree(stack)]
    of_ray = ray.admission(stack.ray)
    pairs = [*(of_ray[at : at + 2] for at in range(0, len(of_ray), 2)), *tenancy.policies(stack)]
    policies = {pair[0]["metadata"]["name"]: json.loads(json.dumps(pair)) for pair in pairs}
    objects += [pair[0] for pair in policies.values()]
    for body in objects:
        plane.apply(json.loads(json.dumps(body)), path_of(body))
    path = f"/api/v1/namespaces/{_TEAM}/serviceaccounts/member/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return Bench(plane, stack, str(plane.call("POST", path, body)["status"]["token"]), policies)


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _marker(name: str) -> list[Object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.name != '{name}'", "message": name}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": spec, "ValidatingAdmissionPolicyBinding": binding}
    version = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": each}
        for kind, each in kinds.items()
    ]


def _configuration(kind: str, webhooks: list[Object], port: int) -> Object:
    for each in webhooks:
        each["clientConfig"]["service"]["port"] = port
    meta = {"name": gang_authority.PROGRAM}
    version = "admissionregistration.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": meta,
        "webhooks": webhooks,
    }


def _pods(*, tolerations: Sequence[Object] = (), gpus: str = "") -> Object:
    amounts = {"cpu": "500m", "memory": "512Mi", **({names.GPU_RESOURCE: gpus} if gpus else {})}
    container = {"name": "ray", "image": "ray", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [container], "tolerations": list(tolerations)}
    return {"rayStartParams": {}, "template": {"spec": spec}}


def _get(url: str, plane: ControlPlane) -> str:
    context = ssl.create_default_context(cafile=str(plane.certificate))
    wanted = urllib.request.Request(url, headers={"Authorization": f"Bearer {plane.token}"})  # noqa: S310 - its own server
    with urllib.request.urlopen(wanted, timeout=30, context=context) as answer:  # noqa: S310
        return str(answer.read().decode())


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.admission",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rate", type=float, default=20.0, help="creations a second (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of each kind in a round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    main()
