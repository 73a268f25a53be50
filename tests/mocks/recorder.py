"""What a program registers with the engine, as the engine would get it.

Assertions are made on registered inputs: one inside an `apply` can pass without ever having run.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, rpc
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func


@dataclass(frozen=True, slots=True)
class Registered:
    """One resource. `parent` and `depends_on` are URNs, `read` those that inputs come from, once an input;
    `provider` is `urn::id` of its provider; `formerly` are the names of its aliases.
    """

    type: str
    name: str
    urn: str
    inputs: Mapping[str, Any]
    parent: str
    depends_on: frozenset[str]
    read: tuple[str, ...]
    provider: str
    is_custom: bool
    protect: bool
    is_retained: bool
    ignore_changes: frozenset[str]
    replace_on_changes: frozenset[str]
    formerly: tuple[str, ...] = ()


class Program:
    """Everything that one run registered, in the order of its arrival."""

    def __init__(self, resources: list[Registered]) -> None:
        self.resources = resources
        self._by_urn = {each.urn: each for each in resources}

    def one(self, type_: str, name: str) -> Registered:
        found = [each for each in self.resources if (each.type, each.name) == (type_, name)]
        assert len(found) == 1, f"{type_} {name}: {[(each.type, each.name) for each in self.resources]}"
        return found[0]

    def of(self, type_: str) -> list[Registered]:
        return [each for each in self.resources if each.type == type_]

    def comes_after(self, later: Registered, earlier: Registered) -> bool:
        """Whether `later` waits for `earlier`, over any number of steps; a component means its children."""
        seen: set[str] = set()
        todo = list(later.depends_on)
        while todo:
            urn = todo.pop()
            if urn == earlier.urn:
                return True
            if urn in seen or urn not in self._by_urn:
                continue
            seen.add(urn)
            todo += self._by_urn[urn].depends_on
            todo += [each.urn for each in self.resources if each.parent == urn]
        return False

    def paths(self, last: Registered) -> int:
        """How many ways lead from a resource to what it waits for, over any number of steps.

        When a deletion is refused or fails, the engine goes all of them (markAsDependency in
        pkg/resource/graph/dependency_graph.go of pulumi/pulumi 3.200 and after: it never asks whether it has
        been somewhere before), at a million in seconds.
        """
        known: dict[str, int] = {}

        def count(urn: str) -> int:
            if urn not in known:
                each = self._by_urn.get(urn)
                known[urn] = 1 if each is None else 1 + sum(map(count, _steps(each)))
            return known[urn]

        return count(last.urn)


def _steps(resource: Registered) -> list[str]:
    provider = [resource.provider.rpartition("::")[0]] if resource.provider else []
    return [*provider, *resource.depends_on, *resource.read]


# What a cloud says of a thing that it has made.
MADE: Mapping[str, Mapping[str, Any]] = {
    "gcp:container/cluster:Cluster": {
        "endpoint": "192.0.2.1",
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": "gke-1.us-central1.gke.goog"}},
        "masterAuth": {"clusterCaCertificate": "Q0E="},
    },
    "gcp:serviceaccount/account:Account": {"email": "nodes@p.iam.gserviceaccount.com"},
    "aws:eks/cluster:Cluster": {
        "endpoint": "https://eks.test",
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster", "vpcId": "vpc-1"},
    },
    "aws:eks/nodeGroup:NodeGroup": {"resources": [{"autoscalingGroups": [{"name": "asg-1"}]}]},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 3},
    "aws:iam/role:Role": {"arn": "arn:aws:iam::123456789012:role/r", "name": "r"},
    "aws:sqs/queue:Queue": {"arn": "arn:aws:sqs:us-east-1:123456789012:q", "name": "q", "url": "https://q"},
}


@dataclass(slots=True)
class _Cluster(pulumi.runtime.Mocks):
    """A cluster that has `existing` and takes everything as it comes. `kubernetes`: the version that the EKS
    cluster `ml` runs, "" before there is one.
    """

    existing: list[dict[str, Any]]
    kubernetes: str = ""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"{args.name}-id", {**args.inputs, **MADE.get(args.typ, {})}

    # The SDK takes a plain dictionary as well as the pair that it declares.
    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "aws:eks/getClusters:getClusters":
            return {"names": ["ml"] if self.kubernetes else []}
        if args.token == "aws:eks/getCluster:getCluster":
            return {"version": self.kubernetes}
        assert args.token == "muster:k8s:find"
        found = [each for each in self.existing if _matches(args.args["selector"], each)]
        return {"objects": [json.dumps(each) for each in found], "asked": True}


def _matches(selector: str, body: Mapping[str, Any]) -> bool:
    """Whether an object has the labels: `a=b` and `a in (b,c)`, joined by commas."""
    labels = body["metadata"].get("labels", {})
    wanted = re.findall(r"([\w./-]+)(?:=| in \()([\w.,-]+?)(?:\)|,|$)", selector.replace(")", "),"))
    assert wanted, selector
    return all(labels.get(key) in values.split(",") for key, values in wanted)


def _former_names(request: Any) -> tuple[str, ...]:
    """The names of a resource's aliases. A provider's own alias of another type has none."""
    return tuple(each.spec.name for each in request.aliases if each.spec.name)


@dataclass(slots=True)
class _Log:
    resources: list[Registered] = field(default_factory=list)


class _Monitor(mocks.MockMonitor):
    """The SDK's monitor forgets parents and dependencies; this one writes them down first."""

    def __init__(self, cluster: _Cluster, log: _Log) -> None:
        super().__init__(cluster)
        self._log = log

    def RegisterResource(self, request: Any) -> Any:
        if request.type != "pulumi:pulumi:Stack":
            self._log.resources.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    urn=self.make_urn(request.parent, request.type, request.name),
                    inputs=rpc.deserialize_properties(request.object, keep_unknowns=False),
                    parent=request.parent,
                    depends_on=frozenset(request.dependencies),
                    read=tuple(urn for each in request.propertyDependencies.values() for urn in each.urns),
                    provider=request.provider,
                    is_custom=request.custom,
                    protect=request.protect,
                    is_retained=request.retainOnDelete,
                    ignore_changes=frozenset(request.ignoreChanges),
                    replace_on_changes=frozenset(request.replaceOnChanges),
                    formerly=_former_names(request),
                )
            )
        register: Callable[[Any], Any] = super().RegisterResource
        return register(request)


def run(
    program: Callable[[], object], *, existing: list[dict[str, Any]] | None = None, kubernetes: str = ""
) -> Program:
    """Run a program to its end against the recorder. What the program raises comes out. `kubernetes`: the
    version that its EKS cluster runs already.
    """
    log = _Log()
    _run(program, existing or [], log, kubernetes)
    return Program(log.resources)


def refused(
    program: Callable[[], object], error: type[Exception], *, match: str, existing: list[dict[str, Any]]
) -> Program:
    """What a program has registered when it is refused."""
    log = _Log()
    with pytest.raises(error, match=match):
        _run(program, existing, log)
    return Program(log.resources)


def _run(
    program: Callable[[], object], existing: list[dict[str, Any]], log: _Log, kubernetes: str = ""
) -> None:
    cluster = _Cluster(existing, kubernetes)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        mocks.set_mocks(
            cluster, project="muster", stack="test", preview=False, monitor=_Monitor(cluster, log)
        )
        SETTINGS.rpc_manager.clear()
        SETTINGS.outputs.clear()
        loop.run_until_complete(run_pulumi_func(lambda: _nothing(program())))
    finally:
        _end(loop)
        asyncio.set_event_loop(None)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """What a refused program has left half registered ends here, not in the garbage collector."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()


def _nothing(_: object) -> None:
    return None


def secret(value: Any) -> Any:
    """What a secret input holds; an input that is no secret is a mistake of the program."""
    assert isinstance(value, dict), "not a secret"
    assert value.get(rpc._special_sig_key) == rpc._special_secret_sig, "not a secret"
    return value["value"]
