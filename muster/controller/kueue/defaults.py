"""Defaults of a new job: its queue, its priority, its gate, its tolerations, the pools that are too small for
it, Ray's token, how it ends and is upgraded, and that autoscalers leave its pods alone.

On creation, from the queue tree in the cache, as a JSON patch of what is missing; a second pass finds nothing
to patch. What a job sets is kept, except a KAI queue that is not its namespace's, which would leave its pods
pending without an explanation. A manifest that is applied again replaces the list of worker groups with one
that lacks what was filled in: on a change the pods of a Ray kind get again what they had. Refusing is for the
policies and webhooks.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.controller.gangs.objects import Taint, Toleration
from muster.controller.gangs.verify import is_tolerated
from muster.controller.kube.decoding import decode
from muster.controller.kube.resource import Object
from muster.controller.kueue.default_queue import choose, mapping, requests_device, requests_devices
from muster.controller.kueue.jobs import DEVICE_TAINTS, JobTemplate, job_pod_set
from muster.controller.kueue.limits import Pools
from muster.controller.runtime.review import Allow, Deny, Patch, Review, Verdict, Webhook
from muster.model import names
from muster.model.gangpolicy import GangPolicy
from muster.model.queuetree import QueueTree, Space
from muster.model.ray import FIRST_WITH_TOKEN, Upgrade, release_of
from muster.model.work import QUEUED, value_at

Json = dict[str, Any]
QueueTreeCache = Callable[[], QueueTree]

_KINDS: Final = {each.kind.lower(): each for each in QUEUED}
_ANYTHING: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_TERMS: Final = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
# As the policy of Ray's age reads a version (muster/render/ray.py).
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(\.|\Z)")
Path = tuple[str | int, ...]


class Defaults:
    """The mutating reviews, bound to the tree and the policy that are in force when each is made."""

    def __init__(self, tree: QueueTreeCache, policy: Callable[[], GangPolicy | None] = lambda: None) -> None:
        self._tree, self._policy = tree, policy

    def listed(self) -> tuple[Webhook[Object], ...]:
        """One webhook a kind, at `/default-<kind>`. Where it fails, the object passes as it is: what then
        lacks is the policies' to refuse.
        """
        return tuple(
            Webhook(path=f"/default-{kind}", type=Object, review=self._review(kind), on_error="allow")
            for kind in _KINDS
        )

    def _review(self, kind: str) -> Callable[[Review[Object]], Verdict]:
        return lambda review: self.review(kind, review)

    def review(self, kind: str, review: Review[Object]) -> Verdict:
        tree = self._tree()
        space = tree.spaces.get(review.namespace)
        if review.object is None or space is None or _is_made(review):
            return Allow()
        patch = _Patch(decode(_ANYTHING, review.raw))
        if review.operation == "UPDATE":
            pools = self._pools(patch, tree, space)
            _keep(patch, kind, tree, pools, before=decode(_ANYTHING, review.raw_old))
            return Patch(tuple(patch.operations)) if patch.operations else Allow()
        if review.operation != "CREATE":
            return Allow()
        refusal = _queue(patch, kind, tree, space)
        if refusal is not None:
            return Deny(refusal)
        _priority(patch, tree, space)
        _upgrade(patch, kind, tree)
        _ending(patch, kind)
        pools = self._pools(patch, tree, space)
        for template in _own_templates(patch.body, kind):
            _pods(patch, template, tree, pools)
        if _KINDS[kind].ray_cluster(patch.body) is not None:
            _ray(patch, kind, tree)
        if tree.gated:
            _gates(patch, kind)
        return Patch(tuple(patch.operations)) if patch.operations else Allow()

    def _pools(self, patch: "_Patch", tree: QueueTree, space: Space) -> Pools | None:
        """Those of its queue. None with KAI, whose queues have one each."""
        policy = self._policy()
        if policy is None or tree.kai:
            return None
        return Pools(policy=policy, queue=space.queue(patch.label(names.QUEUE_LABEL)))


def _is_made(review: Review[Object]) -> bool:
    """KubeRay's own: the object that it was made for has been here."""
    return f"system:serviceaccounts:{names.RAY_NAMESPACE}" in review.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """A pod template of an object, by its name among those of the object. `waits`: its pods wait at the gate
    where there is one. `is_written`: in the object itself.
    """

    name: str
    path: Path
    body: Json
    waits: bool = False
    is_written: bool = True

    @property
    def pod(self) -> Mapping[str, Any]:
        return mapping(self.body, "spec")

    @property
    def is_gated(self) -> bool:
        gates = self.pod.get("schedulingGates")
        return isinstance(gates, list) and {"name": names.GANG_GATE} in gates

    def tolerates(self, taint: Taint) -> bool:
        """True also where its tolerations are malformed: then nothing is put among them."""
        try:
            held = msgspec.convert(self.pod.get("tolerations") or [], list[Toleration])
        except msgspec.ValidationError:
            return True
        return is_tolerated(taint, held)


class _Patch:
    """An object and the RFC 6902 operations that changed it so far."""

    def __init__(self, body: Json) -> None:
        self.body = body
        self.operations: list[Json] = []

    def label(self, key: str) -> str:
        labels = self.body.get("metadata", {}).get("labels") or {}
        return str(labels.get(key) or "")

    def put(self, value: object, *path: str | int) -> None:
        """Sets a value, and makes the objects on the way to it. Where something else stands in the way, the
        object is malformed, and the API server says so.
        """
        at: Any = self.body
        for depth, part in enumerate(path[:-1]):
            if isinstance(at, dict) and at.get(str(part)) is None:
                self._add({}, path[: depth + 1])
                at[str(part)] = {}
            at = at[part]
            if not isinstance(at, dict | list):
                return
        self._add(value, path)
        if isinstance(at, list):
            at.append(value)
        else:
            at[path[-1]] = value

    def _add(self, value: object, path: tuple[str | int, ...]) -> None:
        pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
        self.operations.append({"op": "add", "path": pointer, "value": value})


def _queue(patch: _Patch, kind: str, tree: QueueTree, space: Space) -> str | None:
    """The queue that the job is for, and the pool that the queue is of. Returns why it cannot be chosen."""
    label = names.KAI_QUEUE_LABEL if tree.kai else names.QUEUE_LABEL
    said = patch.label(label)
    if said and not tree.kai:
        return None  # Another's queue is a policy's to refuse.
    queue = space.queue(said)
    if queue is None:
        # One that is wrong is put right only where there is nothing to choose.
        is_clear = not said or len(space.queues) == 1
        templates = [each.body for each in _all_templates(patch.body, kind)]
        queue = choose(patch.body, templates, space) if is_clear else None
        if queue is None:
            known = ", ".join(each.name for each in space.queues) or "(there is none)"
            what = f"queue {said} accepts no work from this namespace" if said else "it names no queue"
            return f"{what}: set metadata.labels[{label}] to one of: {known}."
        patch.put(queue.name, "metadata", "labels", label)
    if queue.pool and not patch.label(names.POOL_LABEL):
        # KAI's shards look for their own pool's label on the pod group, which has it from here.
        patch.put(queue.pool, "metadata", "labels", names.POOL_LABEL)
    return None


def _priority(patch: _Patch, tree: QueueTree, space: Space) -> None:
    label = names.KAI_PRIORITY_LABEL if tree.kai else names.PRIORITY_LABEL
    if space.default_priority and not patch.label(label):
        patch.put(space.default_priority, "metadata", "labels", label)


def _upgrade(patch: _Patch, kind: str, tree: QueueTree) -> None:
    """KubeRay's own default is what a queue cannot count."""
    said = mapping(patch.body, "spec", "upgradeStrategy")
    if kind == "rayservice" and not tree.kai and not said.get("type"):
        patch.put(Upgrade.NONE, "spec", "upgradeStrategy", "type")


def _ending(patch: _Patch, kind: str) -> None:
    """Without it the pods of work that has finished would keep nodes whose quota its queue has given away."""
    spec = mapping(patch.body, "spec")
    said = ("shutdownAfterJobFinishes", "clusterSelector", "deletionStrategy")
    if kind == "rayjob" and not any(spec.get(key) is not None for key in said):
        patch.put(True, "spec", "shutdownAfterJobFinishes")
    cleaning = _KINDS[kind].cleaning
    if cleaning and not value_at(patch.body, cleaning):
        patch.put("Running", *cleaning.split("."))


def _pods(patch: _Patch, template: _Template, tree: QueueTree, pools: Pools | None) -> None:
    _tolerations(patch, template, tree)
    if pools is not None:
        _large_nodes(patch, template, pools)
    _undisturbed(patch, template)


def _tolerations(patch: _Patch, template: _Template, tree: QueueTree) -> None:
    """Of the taint of nodes with GPUs or TPUs, for pods that request one: without it no queue assigns them a
    pool.
    """
    for resource, taint in DEVICE_TAINTS.items():
        asks = requests_device(template.body, resource, parts=tree.kai)
        if asks and not template.tolerates(taint):
            toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
            held = template.pod.get("tolerations")
            if held:
                patch.put(toleration, *template.path, "spec", "tolerations", "-")
            else:
                patch.put([toleration], *template.path, "spec", "tolerations")


def _large_nodes(patch: _Patch, template: _Template, pools: Pools) -> None:
    """Away from the pools whose nodes are too small for one of its pods, where another one has larger nodes:
    Kueue compares quotas alone, and would give it the first pool with enough.
    """
    try:
        pod_set = job_pod_set(template.name, 1, msgspec.convert(template.body, JobTemplate))
    except ValueError:
        return  # Malformed, which the API server says.
    large = pools.large_enough(pod_set)
    small = [flavor.name for flavor in pools.suited(pod_set) if flavor not in large]
    if not large or not small:
        return
    rule = {"key": names.POOL_LABEL, "operator": "NotIn", "values": small}
    way = (*template.path, "spec", *_TERMS)
    terms = value_at(template.pod, ".".join(_TERMS)) or ()
    for index, term in enumerate(terms):
        if term.get("matchExpressions"):
            patch.put(rule, *way, index, "matchExpressions", "-")
        elif term.get("matchFields"):  # A term without either matches no node.
            patch.put([rule], *way, index, "matchExpressions")
    if not terms:
        patch.put([{"matchExpressions": [rule]}], *way)


def _avoids_pools(template: _Template) -> bool:
    terms = value_at(template.pod, ".".join(_TERMS)) or ()
    rules = [rule for term in terms for rule in term.get("matchExpressions") or ()]
    return any((rule["key"], rule["operator"]) == (names.POOL_LABEL, "NotIn") for rule in rules)


def _keep(patch: _Patch, kind: str, tree: QueueTree, pools: Pools | None, *, before: Json) -> None:
    """What a template of the same name had. A group that is new is like one of a new object, and what an
    object from before lacked it goes on lacking.
    """
    if _KINDS[kind].cluster:
        _start_params(patch, kind, before)
    held = {each.name: each for each in _all_templates(before, kind)}
    for template in _own_templates(patch.body, kind):
        old = held.get(template.name)
        if old is None or any(
            requests_device(old.body, resource, parts=tree.kai) and old.tolerates(taint)
            for resource, taint in DEVICE_TAINTS.items()
        ):
            _tolerations(patch, template, tree)
        if pools is not None and (old is None or _avoids_pools(old)):
            _large_nodes(patch, template, pools)
        if old is None or names.UNDISTURBED.keys() <= mapping(old.body, "metadata", "annotations").keys():
            _undisturbed(patch, template)
        if tree.gated and template.waits and (old is None or old.is_gated or _KINDS[kind].serves):
            _gate(patch, kind, template)


def _release(spec: Json) -> str:
    """The release of Ray that the image of the head is of; empty where its reference names none."""
    containers = mapping(spec, "headGroupSpec", "template", "spec").get("containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    return release_of(str(first.get("image") or "")) if isinstance(first, dict) else ""


def _knows_token(spec: Json) -> bool:
    """KubeRay fails a cluster that asks an older release for a token. What names no release is asked for
    one by a policy.
    """
    release = _RELEASE.match(str(spec.get("rayVersion")))
    least = FIRST_WITH_TOKEN
    return release is not None and (int(release[1]), int(release[2])) >= (least.major, least.minor)


def _undisturbed(patch: _Patch, template: _Template) -> None:
    """An autoscaler that empties a node with few pods ends the whole gang with the one pod that it moves."""
    said = mapping(template.body, "metadata", "annotations")
    for key, value in names.UNDISTURBED.items():
        if key not in said:
            patch.put(value, *template.path, "metadata", "annotations", key)


def _ray(patch: _Patch, kind: str, tree: QueueTree) -> None:
    cluster, spec = _KINDS[kind].cluster.split("."), _KINDS[kind].ray_cluster(patch.body) or {}
    release = _release(spec)
    if release and not spec.get("rayVersion"):
        patch.put(release, *cluster, "rayVersion")
    if tree.guarded and _knows_token(spec) and not mapping(spec, "authOptions").get("mode"):
        patch.put("token", *cluster, "authOptions", "mode")
    _start_params(patch, kind)


def _start_params(patch: _Patch, kind: str, before: Json | None = None) -> None:
    """What Kueue's webhook writes null for, and KubeRay's definition then refuses. Of a change, what the
    groups had `before`.

    Source: https://github.com/michelangelo-ai/michelangelo/pull/1932, read 2026-11-29
    """
    held = _groups(before, kind) if before is not None else {}
    for name, (way, group) in _groups(patch.body, kind).items():
        was_there = name not in held or held[name][1].get("rayStartParams") is not None
        if was_there and group.get("rayStartParams") is None:
            patch.put({}, *way, "rayStartParams")


def _groups(body: Json, kind: str) -> dict[str, tuple[Path, Json]]:
    """The head, without a name, and the worker groups of a Ray cluster, each with its path."""
    cluster, spec = _KINDS[kind].cluster.split("."), _KINDS[kind].ray_cluster(body) or {}
    workers = spec.get("workerGroupSpecs")
    found: dict[str, tuple[Path, Json]] = {}
    if isinstance(head := spec.get("headGroupSpec"), dict):
        found[""] = ((*cluster, "headGroupSpec"), head)
    for index, group in enumerate(workers if isinstance(workers, list) else ()):
        if isinstance(group, dict):
            found[str(group.get("groupName"))] = ((*cluster, "workerGroupSpecs", index), group)
    return found


def _own_templates(body: Json, kind: str) -> list[_Template]:
    """Those that are in the object itself, so that something can be filled in."""
    return [each for each in _all_templates(body, kind) if each.is_written]


def _all_templates(body: Json, kind: str) -> list[_Template]:
    """The pod templates of any kind. All pods of a gang wait together, but for the one that submits a RayJob;
    none of work without devices waits beside Ray's.
    """
    work = _KINDS[kind]
    cluster = tuple(work.cluster.split("."))
    asks = bool(work.labels) and any(requests_devices(place.template) for place in work.places(body))
    return [
        _Template(
            # An item of a list is known by its name.
            name=".".join(place.name if isinstance(step, int) else step for step in place.at),
            path=place.at,
            body=place.template,
            waits=asks or (work.is_ray and place.at[: len(cluster)] == cluster),
            is_written=not place.is_of_runtime,
        )
        for place in work.places(body)
    ]


def _gates(patch: _Patch, kind: str) -> None:
    waiting = [each for each in _all_templates(patch.body, kind) if each.waits]
    for template in waiting:
        _gate(patch, kind, template)
    for place in _KINDS[kind].places(patch.body) if _KINDS[kind].labels else ():
        # KAI groups no work of Kubeflow's that leaves replicas to a default.
        if place.name in _KINDS[kind].pods[0].template.keys and place.group.get("replicas") is None:
            patch.put(1, *place.at[:-1], "replicas")
    if kind == "job" and waiting:
        _batch_minimum(patch)
    if _KINDS[kind].makes:
        _hand_down(patch)


def _hand_down(patch: _Patch) -> None:
    """What KAI and our gate read of the JobSet that Trainer makes: it copies the labels of such an entry
    (2.3.0, pkg/runtime/core/trainingruntime.go, read 2026-11-29).
    """
    labels = {key: said for key in names.HANDED_DOWN if (said := patch.label(key))}
    entry = {
        "manager": names.PATCH_MANAGER,
        "trainingRuntimeSpec": {"template": {"metadata": {"labels": labels}}},
    }
    held = value_at(patch.body, "spec.runtimePatches") or []
    if any(isinstance(each, dict) and each.get("manager") == names.PATCH_MANAGER for each in held):
        return
    if held:
        patch.put(entry, "spec", "runtimePatches", "-")
    else:
        patch.put([entry], "spec", "runtimePatches")


def _batch_minimum(patch: _Patch) -> None:
    """Without it KAI evicts a Job pod by pod. With more completions than pods at a time the last pods would
    be too few to be started.
    """
    spec, said = mapping(patch.body, "spec"), mapping(patch.body, "metadata", "annotations")
    at_once, most = spec.get("parallelism", 1), spec.get("completions")
    if isinstance(at_once, int) and at_once > 1 and isinstance(most, int | None):
        least = at_once if most is None else most
        if least <= at_once and names.KAI_BATCH_MINIMUM not in said:
            patch.put(str(least), "metadata", "annotations", names.KAI_BATCH_MINIMUM)


def _gate(patch: _Patch, kind: str, template: _Template) -> None:
    """With KAI and the queue, which KubeRay names in its pods by itself."""
    if not template.pod:
        return
    gates, gate = template.pod.get("schedulingGates"), {"name": names.GANG_GATE}
    if not gates:
        patch.put([gate], *template.path, "spec", "schedulingGates")
    elif isinstance(gates, list) and not template.is_gated:
        patch.put(gate, *template.path, "spec", "schedulingGates", "-")
    if _KINDS[kind].is_ray:
        return
    # The API server has filled in its default before any webhook.
    if template.pod.get("schedulerName") in (None, "", "default-scheduler"):
        patch.put(names.KAI_SCHEDULER, *template.path, "spec", "schedulerName")
    if names.KAI_QUEUE_LABEL not in mapping(template.body, "metadata", "labels"):
        queue = patch.label(names.KAI_QUEUE_LABEL)
        patch.put(queue, *template.path, "metadata", "labels", names.KAI_QUEUE_LABEL)
