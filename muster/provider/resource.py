"""The lifecycle of one Bundle: its state, and create, read, update, delete against a cluster.

State: `objects` lists what may be in the cluster because of this Bundle, `cluster` is the UID of that
cluster. The manifests themselves are inputs and are not repeated. No gRPC here; `provider.py` translates.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.manifests import rewrite
from muster.provider import VERSION
from muster.provider.api import Cluster, Deadline
from muster.provider.converge import Identity, converge, remove
from muster.provider.manifests import Item, ManifestError, Ref, project, read, ref_of
from muster.provider.readiness import MANAGER, LogStatus

# The package's schema: what `pulumi package get-schema` prints.

BUNDLE = "muster:k8s:Bundle"
FIND = "muster:k8s:find"

_KUBECONFIG = {
    "kubeconfig": {
        "type": "string",
        "secret": True,
        "description": "A kubeconfig or the path to one; $KUBECONFIG and then ~/.kube/config without it.",
    },
    "context": {
        "type": "string",
        "description": "The context to use; the kubeconfig's current one without it.",
    },
}
_INPUTS = {
    "manifests": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "A key of your choice (a team's name) -> its Kubernetes objects as YAML or JSON.",
    },
    "dryRuns": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "A key of `manifests` -> objects that the API server has to accept in a dry run "
        "before the bundle is done. They are never created, and a change of them alone does not update "
        "the bundle.",
    },
}

SCHEMA = json.dumps(
    {
        "name": "muster",
        "version": VERSION,
        "description": "Many Kubernetes objects as one Pulumi resource.",
        "config": {"variables": _KUBECONFIG},
        "provider": {"inputProperties": _KUBECONFIG},
        "functions": {
            FIND: {
                "description": "Live objects of a kind with these labels, in all namespaces.",
                "inputs": {
                    "properties": {name: {"type": "string"} for name in ("apiVersion", "kind", "selector")},
                    "required": ["apiVersion", "kind", "selector"],
                },
                "outputs": {
                    "properties": {
                        "objects": {"type": "array", "items": {"type": "string"}},
                        "asked": {
                            "type": "boolean",
                            "description": "Whether the cluster was reached; without it nothing is found.",
                        },
                    },
                    "required": ["objects", "asked"],
                },
            }
        },
        "resources": {
            BUNDLE: {
                "description": "Kubernetes objects that are applied in order and removed in reverse.",
                "inputProperties": _INPUTS,
                "requiredInputs": ["manifests"],
                "properties": {
                    "cluster": {"type": "string", "description": "UID of the cluster that they are in."},
                    "objects": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "What is in the cluster because of this bundle.",
                    },
                },
                "required": ["cluster", "objects"],
            }
        },
    }
)


@dataclass(frozen=True, slots=True)
class Written:
    """What create or update left behind.

    With `failures` the engine keeps the state and tries again in the next run; `warnings` are only reported.
    """

    state: dict[str, Any]
    failures: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What read found: `manifests` equals the old ones where nothing drifted.

    `missing` counts the objects that are gone.
    """

    manifests: dict[str, str]
    missing: int
    total: int


async def write(
    cluster: Cluster,
    manifests: Mapping[str, str],
    *,
    dry_runs: Mapping[str, str] | None = None,
    before: Mapping[str, str],
    state: Mapping[str, Any],
    deadline: Deadline,
    log_status: LogStatus,
) -> Written:
    """Create and update alike: bring the cluster from `before` and `state` to `manifests`.

    `dry_runs` are objects that the API server has to accept at the end, under the keys of `manifests`.
    """
    wanted = read(manifests)
    uid = await cluster.uid(deadline)
    outcome = await converge(
        cluster,
        wanted,
        dry_runs=read(dry_runs or {}),
        before=_bodies(before),
        inventory=inventory(state),
        deadline=deadline,
        log_status=log_status,
    )
    return Written(state_of(uid, outcome.present.values()), tuple(outcome.failures), tuple(outcome.warnings))


async def delete(
    cluster: Cluster, state: Mapping[str, Any], *, deadline: Deadline, log_status: LogStatus
) -> Written:
    """Delete every object of the state and wait until it is gone."""
    outcome = await remove(cluster, inventory(state), deadline=deadline, log_status=log_status)
    return Written(state_of(str(state.get("cluster", "")), outcome.present.values()), tuple(outcome.failures))


async def read_live(cluster: Cluster, manifests: Mapping[str, str], *, deadline: Deadline) -> Seen:
    """Compare with the live objects. A key without drift keeps its text unchanged."""
    items = read(manifests)
    live = await asyncio.gather(*(cluster.get(item.ref, deadline) for item in items))
    seen = {item.ref: _project_live(item, body) for item, body in zip(items, live, strict=True)}
    drifted = {item.key for item in items if seen[item.ref] != item.body}
    texts = {
        key: rewrite(text, lambda body: seen[ref_of(body)]) if key in drifted else text
        for key, text in manifests.items()
    }
    return Seen(texts, sum(body is None for body in live), len(items))


def inventory(state: Mapping[str, Any]) -> list[Ref]:
    return [Ref.decode(text) for text in state.get("objects") or ()]


def state_of(uid: str, present: Any) -> dict[str, Any]:
    return {"cluster": uid, "objects": sorted(ref.encode() for ref in present)}


def _project_live(item: Item, live: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if live is None or live["metadata"].get("deletionTimestamp"):
        return None
    return project(item.body, live, manager=MANAGER)


def _bodies(manifests: Mapping[str, str]) -> dict[Identity, Mapping[str, Any]]:
    """What was applied before. For a text that can no longer be read, nothing is forced."""
    bodies: dict[Identity, Mapping[str, Any]] = {}
    for key, text in manifests.items():
        try:
            bodies |= {item.ref.identity: item.body for item in read({key: text})}
        except ManifestError:
            continue
    return bodies
