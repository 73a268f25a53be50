"""Creates and deletes the requests of gangs.

Responsible for the safety of a stale or repeated decision: every deletion carries the uid, and a create that
finds its name taken accepts the object only if the owner's uid matches. Writes go into the caches at once, so
that the next decision sees them. Each scheduler writes the gang's own object; `Startup` recognises temporary
rejections, create_errors.py the others.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from muster.controller.gangs.actions import (
    CreatePlaceholders,
    CreateRequest,
    CreateSet,
    CreateTemplates,
    Delete,
    HoldNode,
    delete,
)
from muster.controller.gangs.altered import alterations
from muster.controller.gangs.create_errors import (
    Altered,
    CreateRejected,
    NameTaken,
    is_no_verdict,
    is_rejection,
)
from muster.controller.gangs.identity import ATTEMPT, template_name
from muster.controller.gangs.objects import (
    NODE,
    PLACEHOLDER,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    Belonging,
    PodTemplate,
)
from muster.controller.gangs.owner import Owner, Owners
from muster.controller.gangs.placeholder_pods import pods
from muster.controller.gangs.placeholders import named, pod
from muster.controller.gangs.taints import NodeTaints
from muster.controller.gangs.templates import Json, is_ours, pod_template, provisioning_request, set_notes
from muster.controller.kube.client import Client
from muster.controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    Status,
)
from muster.controller.kube.parallel import side_by_side
from muster.controller.kube.resource import Key, Resource, T
from muster.controller.runtime.informer import Informer
from muster.model.names import OWN_PREFIX

ALLOWED_FOR: Final = 30.0
"""Seconds for which a pod that was allowed answers for others like it. A quota, an account or a policy that
changes meanwhile is noticed by the gangs after it.
"""
_CONTAINERS: Final = ("containers", "initContainers")


class StaleDecision(Conflict):
    """The object is not any more what the decision was made from. Nothing was done; decide again."""

    def __init__(self, message: str) -> None:
        super().__init__(Status(code=409, reason="Conflict", message=message))


class Requests:
    """Creates and deletes PodTemplates, ProvisioningRequests and placeholders. A create raises CreateRejected
    where the object was judged and refused.
    """

    def __init__(
        self,
        client: Client,
        *,
        caches: Mapping[Resource[Any], Informer[Any]],
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._client, self._caches = client, caches
        self._taints = NodeTaints(client, remember=partial(self.remember, NODE))
        self._startup = Startup(clock)
        self._clock = clock
        self._allowed: dict[bytes, float] = {}
        self._trying: dict[bytes, asyncio.Event] = {}
        """The first try of each that has no answer yet."""
        self._log = structlog.get_logger("requests")

    async def try_pod(self, body: Json, *, pod_set: str, attempt: str) -> None:
        """Raises CreateRejected where the API server would refuse a pod of this PodSet. One like it that was
        allowed a moment ago or is being tried answers for it: the jobs of a sweep differ in their arguments.
        """
        key, alike = _key(body), _judged(body)
        if (first := self._trying.get(alike)) is not None:
            await first.wait()
        now = self._clock()
        _forget(self._allowed, before=now - ALLOWED_FOR)
        if alike in self._allowed:
            return
        # What is refused, or fails, answers for no other: those behind it are tried side by side.
        answered = self._trying.setdefault(alike, asyncio.Event())
        try:
            await self._client.try_create(POD, body, namespace=key.namespace)
            self._allowed.setdefault(alike, now)
        except ApiError as error:
            if is_no_verdict(error):
                self._log.info("no dry run", name=key.name, pod_set=pod_set, error=str(error))
                return
            if not self._is_verdict(key, error):
                raise
            raise _rejected(f"pod of {pod_set}", error, attempt=attempt) from error
        finally:
            answered.set()
            self._trying.pop(alike, None)

    async def create_templates(
        self, owner: Owner, action: CreateTemplates, templates: Mapping[str, Json]
    ) -> None:
        """`templates`: the pod template of each PodSet in the request."""
        for number, demand in enumerate(action.spec.demands):
            body = pod_template(
                owner,
                name=template_name(action.request, number),
                template=templates[demand.pod_set],
                pool=demand.flavor.name,
                labels=action.labels,
                notes={**set_notes(action.spec, demand, templates[demand.pod_set]), **action.notes},
            )
            await self._create(POD_TEMPLATE, body, owner)

    async def create_request(self, owner: Owner, action: CreateRequest) -> None:
        names = [template_name(action.name, number) for number in range(len(action.spec.demands))]
        templates = [await self._template(Key(owner.key.namespace, name)) for name in names]
        body = provisioning_request(
            owner, name=action.name, spec=action.spec, templates=templates, labels=action.labels
        )
        await self._create(PROVISIONING_REQUEST, body, owner)

    async def create_set(self, owner: Owner, action: CreateSet) -> None:
        """The pods of it that are not there yet."""
        store = self._caches[PLACEHOLDER].store
        await side_by_side(
            self._create(PLACEHOLDER, body, owner)
            for body in pods(owner, action)
            if store.get(Key(body["metadata"]["namespace"], body["metadata"]["name"])) is None
        )

    async def hold(self, owner: Owner, action: CreatePlaceholders) -> None:
        await side_by_side(
            self._create(PLACEHOLDER, pod(owner, action, name=name, index=index), owner)
            for name, index in named(action.request, action.spec)
        )

    async def hold_node(self, action: HoldNode) -> None:
        try:
            await self._taints.hold(action.node, held_as=action.held_as)
        except ApiError as error:
            what = f"taint of node {action.node}"
            raise self.refusal(what, error, attempt=action.attempt) or error from None

    def refusal(
        self, what: str, error: ApiError, *, attempt: str, as_a: type[CreateRejected] = CreateRejected
    ) -> CreateRejected | None:
        """What ends the attempt, where the API server refuses this write; None where it has not judged it."""
        if not self._is_verdict(Key("", f"{attempt}/{what}"), error):
            return None
        return _rejected(what, error, attempt=attempt, as_a=as_a)

    async def delete(self, action: Delete) -> None:
        await self._delete(_KINDS[action.kind], Key(action.namespace, action.name), uid=action.uid)

    async def _delete(self, resource: Resource[Any], key: Key, *, uid: str) -> None:
        try:
            is_gone = await self._client.delete(resource, key, uid=uid)
        except NotFound:
            is_gone = True
        if is_gone:
            self._caches[resource].store.forget(uid)
        self._log.info("deleted", kind=resource.kind, name=key.name)

    async def release_orphans(self, items: Iterable[Belonging], *, of: Key, owners: Owners) -> None:
        """Delete what was made for owners that no longer exist. That is read live, once, unless the cache of
        owners has seen it: a uid never comes back.
        """
        by_owner: dict[str, list[Belonging]] = {}
        for item in items:
            by_owner.setdefault(owners.uid_of(item), []).append(item)
        cached = self._caches.get(owners.resource)
        gone = {uid for uid in by_owner if cached is not None and cached.store.is_gone(uid)}
        living = await self._uid_of(owners.resource, of) if by_owner.keys() - gone else ""
        await side_by_side(
            self.delete(delete(item)) for uid, made in by_owner.items() if uid != living for item in made
        )

    async def _uid_of(self, owners: Resource[Any], key: Key) -> str:
        try:
            live = await self._client.get(owners, key)
        except NotFound:
            return ""
        uid: str = live.metadata.uid
        return uid

    def remember(self, resource: Resource[T], obj: T) -> T:
        """Into the cache at once."""
        self._caches[resource].store.remember(obj)
        return obj

    async def _template(self, key: Key) -> PodTemplate:
        cached: PodTemplate | None = self._caches[POD_TEMPLATE].get(key)
        return cached or await self._client.get(POD_TEMPLATE, key)

    async def _create(self, resource: Resource[T], body: Json, owner: Owner) -> None:
        store, key = self._caches[resource].store, _key(body)
        try:
            with store.making(key, by=asyncio.current_task()):
                made = await self._create_or_adopt(resource, body, owner)
        except CreateRejected as rejected:
            self._log.warning(
                "denied",
                kind=resource.kind,
                name=key.name,
                uid=owner.uid,
                error=str(rejected),
            )
            raise
        store.add(made)

    async def _create_or_adopt(self, resource: Resource[T], body: Json, owner: Owner) -> T:
        key = _key(body)
        try:
            created = await self._client.create(resource, body, namespace=key.namespace)
            self._log.info("created", kind=resource.kind, name=key.name, uid=owner.uid)
        except AlreadyExists:
            found = await self._client.get(resource, key)
            _check_owner(resource, found, body, owner)
            return found
        except ApiError as error:
            if not self._is_verdict(key, error):
                raise
            raise _rejected(resource.kind, error, attempt=_attempt(body)) from error
        sent = resource.compact(msgspec.convert(body, resource.type))  # What came back is compact too.
        if altered := alterations(sent, created):
            # Not into the cache: the cloud must not go on with a request that differs from ours. The end of
            # the attempt deletes it, too: were it decided anew, what a watch has brought would count.
            with suppress(KubeError):
                await self._delete(resource, key, uid=created.metadata.uid)
            raise Altered(resource.kind, attempt=_attempt(body), message=f"{'; '.join(altered)}. {_ALTERED}")
        return created

    def _is_verdict(self, key: Key, error: ApiError) -> bool:
        """Whether the object was judged; not where the server is only starting."""
        return is_rejection(error) and not self._startup.may_explain(key.name, error)


_KINDS: Mapping[str, Resource[Any]] = {
    resource.kind: resource for resource in (PROVISIONING_REQUEST, POD_TEMPLATE, PLACEHOLDER)
}


_ALTERED: Final = (
    "A webhook or an admission policy of the cluster changes what we create. Fix: exempt objects whose names "
    f"begin with {OWN_PREFIX}"
)


def _check_owner(resource: Resource[T], found: T, body: Json, owner: Owner) -> None:
    uids = {reference.uid for reference in found.metadata.owner_references}
    if isinstance(found, PodTemplate) and is_ours(found, owner):
        return
    if uids == {reference["uid"] for reference in body["metadata"]["ownerReferences"]}:
        return
    raise NameTaken(
        resource.kind,
        attempt=_attempt(body),
        message=f"{found.key} has our name for {owner} and another owner. "
        f"Fix: delete it, and see who may create such objects in namespace {found.metadata.namespace}",
    )


def _rejected(
    kind: str, error: ApiError, *, attempt: str, as_a: type[CreateRejected] = CreateRejected
) -> CreateRejected:
    message = error.status.message or "no reason given"
    return as_a(kind, attempt=attempt, reason=type(error).__name__, message=message)


def _key(body: Json) -> Key:
    return Key(body["metadata"]["namespace"], body["metadata"]["name"])


def _judged(body: Json) -> bytes:
    """A digest of what admission judges a pod by: all but its name, its job and its command lines."""
    kept = {
        name: value for name, value in body["metadata"].items() if name not in ("name", "ownerReferences")
    }
    spec = {
        name: [_without_command(each) for each in value] if name in _CONTAINERS else value
        for name, value in body["spec"].items()
    }
    return hashlib.sha256(msgspec.json.encode((kept, spec))).digest()


def _without_command(container: Json) -> Json:
    return {name: value for name, value in container.items() if name not in ("command", "args")}


def _attempt(body: Json) -> str:
    return str(body["metadata"]["labels"].get(ATTEMPT, ""))


# Create errors of an API server or webhook that is still starting.
#
# A server that answers before it has read its roles forbids every request; one that has not read its
# admission plugins or quotas denies every create; so does one whose webhooks have no ready pod. Most load
# balancers keep clients away until the server is ready, but a Service with a single server behind it, or an
# early connection, does not. So does a server in trouble, or one on which an `up` is about to make a
# namespace. Such an answer is retried for a while before it counts as a rejection of the object.


_WORDS: Final = re.compile(
    r"cannot (create|get|patch) resource|not yet ready to handle request|status unknown for quota|"
    r"failed calling webhook"
)
"""Of k8s.io/apiserver 0.36: forbiddenMessage in endpoints/handlers/responsewriters/errors.go, the wait of
admission/plugin/webhook/generic, policy/generic and namespace/lifecycle, checkRequest in
admission/plugin/resourcequota, ErrCallingWebhook in util/webhook.
"""

_DENIED: Final = re.compile(r'admission webhook ".*" denied')
"""A webhook has judged the object, with whatever code (pkg/admission/plugin/webhook/errors)."""

PATIENCE: Final = 60.0
"""Seconds. A server has read what it judges by within a few; what is missing for a minute is missing."""

_REMEMBERED: Final = 3600.0
"""Seconds, longer than any backoff: an object that is not created again is forgotten."""


class Startup:
    """Since when each object has been denied in such words. `clock`: monotonic, in seconds.

    Losing it costs a gang another minute with its quota, nothing else.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def may_explain(self, name: str, error: ApiError) -> bool:
        """Whether this denial of the object `name` may be the server's and not the object's. The names of
        objects carry their attempt, so that none is denied again long after it was denied first.
        """
        words = error.status.message
        is_trouble = isinstance(error, NotFound | ServerError) and not _DENIED.search(words)
        if not (is_trouble or _WORDS.search(words)):
            return False
        now = self._clock()
        _forget(self._since, before=now - _REMEMBERED)
        return now - self._since.setdefault(name, now) < PATIENCE


def _forget(times: dict[Any, float], *, before: float) -> None:
    """The oldest are first: what is there keeps its place."""
    while times:
        oldest = next(iter(times))
        if times[oldest] >= before:
            return
        del times[oldest]
