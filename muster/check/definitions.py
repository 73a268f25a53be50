"""The fields of what members may create, compared as the API server and kubectl do: names, types, enums."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from yaml import YAMLError

from muster.bounded_yaml import load_all
from muster.check.manifests import KubectlLoader, objects_of
from muster.check.validity import OBJECT_NAME, WORDS, WORDS_OF_PODS
from muster.controller.kueue.default_queue import mapping
from muster.model import names
from muster.model.definitions import Fault, faults, load, resolve
from muster.model.identities import POD_ACCOUNT
from muster.model.nearest import meant, meant_resource
from muster.model.section import describe_value
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import Access
from muster.model.work import BY_KIND, WORK
from muster.render.kai import runtime_class

Json = dict[str, Any]
_METADATA: Final = ("labels", "annotations")
# Of a Job's pods: the API server writes its UID there.
_UIDS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_MOST_LISTED: Final = 12
_CASES: Final = {**WORDS, **WORDS_OF_PODS, "protocol": ("TCP", "UDP", "SCTP"), "scheme": ("HTTP", "HTTPS")}
# A host with a port, which may have upper case, and a path, which may not; a tag; a digest.
# Source: https://github.com/distribution/reference/blob/00a09fa3/regexp.go, read 2026-11-29
_HOST: Final = r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[A-Fa-f0-9:]+\])(?::\d+)?"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][\w.+-]*:[0-9a-fA-F]{{32,}})?"
)


def kind_fault(body: Json) -> str:
    """What to write where no server knows the kind, but one whose name is like it; else empty."""
    version, kind = body["apiVersion"], body["kind"]
    work = (f"{each.group}/{each.version} {each.kind}" for each in WORK)
    known = [name.split(" ") for name in dict.fromkeys((*load()["kinds"], *work))]
    if [version, kind] in known:
        return ""
    kinds = {name: served for served, name in reversed(known)}
    if kind in kinds:
        group = version.rpartition("/")[0]
        served = [each for each, name in known if name == kind]
        # Another group may have a kind of this name.
        is_ours = group in {each.rpartition("/")[0] for each in served} or "ray" in group
        return f"no {kind} is served as {version}; write apiVersion: {served[0]}" if is_ours else ""
    nearest, _ = meant(kind.removesuffix("s"), kinds, noun="kind")
    if nearest is None or not _is_slip(kind, nearest):
        return ""
    return f"there is no kind {kind}; write kind: {nearest}"


def corrected(body: Json) -> Json:
    """A copy with what has one right spelling alone: a kind, a field of other case, a number that is text."""
    version, kind = body["apiVersion"], body["kind"]
    known = [name.split(" ") for name in load()["kinds"]]
    slips = [name for _, name in known if kind != name and _is_slip(kind, name)]
    kind = slips[0] if slips and kind not in {name for _, name in known} else kind
    served = [each for each, name in known if name == kind]
    is_ours = version.rpartition("/")[0] in {each.rpartition("/")[0] for each in served}
    found = {**body, "kind": kind, "apiVersion": served[0] if is_ours and version not in served else version}
    schema = load()["kinds"].get(f"{found['apiVersion']} {kind}")
    written: Json = copy.deepcopy(found)
    return _spelled(written, schema) if schema else written


def _spelled(value: Any, schema: Json) -> Any:
    schema = resolve(schema)
    if isinstance(value, float) and schema.get("type") == "int-or-string":
        return repr(value)
    if isinstance(value, list):
        return [_spelled(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    lower = {name.lower(): name for name in fields}
    found = {}
    for name, each in value.items():
        right = name if name in fields else lower.get(name.lower(), name)
        right = name if right in value else right  # Both are there: which counts is its author's to say.
        found[right] = _spelled(each, fields.get(right, others))
    return found


def field_faults(body: Json) -> Iterator[tuple[str, bool]]:
    """Fields that the kind does not have, lacks, or has with another type, each with what to write, and
    whether its value cannot be read for it.
    """
    # Of an older version, which a policy refuses, the fields are judged as those of the newer one.
    version = body["apiVersion"].replace("ray.io/v1alpha1", "ray.io/v1")
    schema = load()["kinds"].get(f"{version} {body['kind']}")
    for field in _METADATA:
        yield from ((fault, True) for fault in _texts(body["metadata"].get(field), f"metadata.{field}"))
    yield from (
        (f"{path} is written by a server, and no new object may have it; remove it", False)
        for path in _of_a_server(body)
    )
    if schema:
        # The API server ignores a status that its author sends, which printed objects have.
        fields = {key: value for key, value in body.items() if key not in ("metadata", "status")}
        yield from ((_refusal_text(fault), fault.is_malformed) for fault in faults(fields, schema))


def _of_a_server(body: Json) -> Iterator[str]:
    """What an object has that was read from a cluster and is sent as a new one, and the API server refuses.

    Source: https://github.com/kubernetes/kubernetes at v1.34.4, pkg/apis/batch/validation/validation.go
    (ValidateGeneratedSelector) and apiserver's pkg/storage/etcd3/store.go (Create), read 2026-11-29
    """
    if body["metadata"].get("resourceVersion"):
        yield "metadata.resourceVersion"
    for path, job in _jobs(body):
        if job.get("selector"):
            yield f"{path}.selector"
        labels = mapping(job, "template", "metadata", "labels")
        yield from (f"{path}.template.metadata.labels[{key}]" for key in _UIDS if key in labels)


def _jobs(body: Json) -> Iterator[tuple[str, Json]]:
    """The specs of batch Jobs in an object whose selectors the API server writes, with their paths."""
    if body["apiVersion"].startswith("batch/"):
        path = ("spec", "jobTemplate", "spec") if body["kind"] == "CronJob" else ("spec",)
        if isinstance(job := mapping(body, *path), dict) and not job.get("manualSelector"):
            yield ".".join(path), job


def image_faults(body: Json) -> Iterator[str]:
    """The images of containers that no kubelet can pull, because they are no references. The API server takes
    them, and the nodes of the gang wait for the pods.
    """
    images = (container.get("image") for container in containers(body.get("spec")))
    for image in dict.fromkeys(image for image in images if isinstance(image, str)):
        if not _IMAGE.fullmatch(image):
            yield (
                f"image {image} is no reference to an image, so its pods would hold their nodes and never "
                "start; write one such as rayproject/ray:2.54.1"
            )


def unmade_faults(body: Json, stack: Stack, access: Access) -> Iterator[str]:
    """What pods name and nothing of the stack makes, nor may a member: without a RuntimeClass or an account
    the API server makes no pod, and without a claim its pod waits on nodes that were bought for it.
    """
    accounts = (POD_ACCOUNT, names.MEMBER_ACCOUNT, *access.accounts)
    made = {
        "runtimeClassName": tuple(filter(None, [runtime_class(stack)])),
        "serviceAccountName": accounts,
        "serviceAccount": accounts,
        "claimName": tuple(each.name for each in access.volumes),
    }
    pods = list(_pods(body.get("spec")))
    volumes = (each for pod in pods for each in objects_of(pod.get("volumes")))
    claims = (mapping(each, "persistentVolumeClaim") for each in volumes)
    for key, name in dict.fromkeys(
        (key, str(part.get(key) or "")) for part in (*pods, *claims) for key in made
    ):
        if name and name not in made[key]:
            usable = [each for each in made[key] if each != names.MEMBER_ACCOUNT]
            instead = f"write {' or '.join(usable)}" if usable else "remove it"
            yield (
                f"{key} {name}, which Muster does not make: in a cluster without it no pod starts; {instead} "
                "or ask the platform team for it"
                if OBJECT_NAME.fullmatch(name)
                else f"{key} {name}, which nothing can be called: no pod starts; {instead}"
            )


def resource_faults(body: Json, known: Collection[str]) -> Iterator[str]:
    """The resources that no node is known to have, where no quota says so: nodes have those of `known`. The
    API server takes every name.
    """
    resources = (container.get("resources") for container in containers(body.get("spec")))
    asked = (name for each in resources if isinstance(each, dict) for name in mapping(each, "limits"))
    for name in dict.fromkeys(each for each in asked if each not in known):
        if real := meant_resource(name, ()):
            yield f"no node has {name}, so its pods would wait forever; write {real} in its place"
        elif "/" in name or name.startswith("hugepages-"):
            yield (
                f"no pool is known to have {name}, so its pods may wait forever; remove it, or ask the "
                "platform team for nodes with it (resources of a pool)"
            )


def runtime_faults(body: Json) -> Iterator[str]:
    """A runtime environment that KubeRay cannot read: it fails the RayJob, whose quota is reserved by then
    (1.6.2, controllers/ray/utils/validation.go, read 2026-11-30). No CEL can read it either.
    """
    text = mapping(body, "spec").get("runtimeEnvYAML") if body["kind"] == "RayJob" else None
    try:
        documents = list(load_all(text, by=KubectlLoader)) if isinstance(text, str) else []
    except (YAMLError, RecursionError):
        documents = [text]
    if any(not isinstance(each, dict | None) for each in documents):
        yield (
            "spec.runtimeEnvYAML is no mapping in YAML, so KubeRay would fail the job after its quota is "
            "reserved; write `key: value` lines, such as `working_dir: ...`, indented by blanks"
        )


def start_faults(body: Json) -> Iterator[str]:
    """An entrypoint that is empty, and pods in which KubeRay starts Ray in the wrong container or with other
    GPUs than it has. KubeRay starts Ray in the first container, and declares its GPUs to Ray where
    rayStartParams do not (1.6.2, controllers/ray/common/pod.go, read 2026-11-30).
    """
    spec = mapping(body, "spec")
    if body["kind"] == "RayJob" and not (
        str(spec.get("entrypoint") or "").strip()
        or spec.get("submissionMode") == "InteractiveMode"
        or spec.get("submitterPodTemplate")
    ):
        yield "spec.entrypoint is empty, so the job fails when its gang runs; write the driver's command"
    work = BY_KIND.get(body["kind"])
    cluster = work.ray_cluster(body) if work else None
    if cluster is None:
        return
    groups = [("the head", mapping(cluster, "headGroupSpec"))]
    workers = objects_of(cluster.get("workerGroupSpecs"))
    groups += [(f"group {group.get('groupName')}", group) for group in workers]
    for name, group in groups:
        listed = objects_of(mapping(group, "template", "spec").get("containers"))
        gpus = [_gpus(container) for container in listed] or [0]
        declared = str(mapping(group, "rayStartParams").get("num-gpus", ""))
        if any(gpus[1:]) and not gpus[0]:
            yield (
                f"KubeRay starts Ray in the first container of {name}, which has no GPU; put the one "
                "with GPUs first"
            )
        elif len(listed) > 1 and not _is_ray(listed[0]) and any(map(_is_ray, listed[1:])):
            first = listed[0].get("name")
            yield f"KubeRay starts Ray in the first container of {name}, {first}; put Ray's first"
        # A head that declares 0 keeps work away from itself.
        elif declared.isdecimal() and int(declared) != gpus[0] and (int(declared) or name != "the head"):
            yield f"num-gpus of {name} is {declared}, but its container has {gpus[0]} GPUs; remove num-gpus"


def _gpus(container: Json) -> int:
    """As KubeRay counts them."""
    limits = mapping(container, "resources", "limits")
    found = (str(limits[name]) for name in limits if name.endswith("gpu") or "/mig-" in name)
    return sum(int(each) for each in found if each.isdecimal())


def _is_ray(container: Json) -> bool:
    return any("ray" in str(container.get(key, "")).lower() for key in ("name", "image"))


def containers(value: object) -> Iterator[Json]:
    """The containers and init containers of all pods in an object."""
    if isinstance(value, list):
        for each in value:
            yield from containers(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in ("containers", "initContainers") and isinstance(each, list):
                yield from (container for container in each if isinstance(container, dict))
            else:
                yield from containers(each)


def without_nulls(value: Any) -> Any:
    """A copy as the API server stores it: a field without a value is none, in its kinds and in others."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def _is_slip(kind: str, nearest: str) -> bool:
    """`Rayjob`, `RayJobs`, `Cronjob`: no other program's kind, such as `MPIJob` is."""
    plain = re.sub(r"[^a-z]", "", kind.lower()).removesuffix("s")
    return plain == nearest.lower()


def _texts(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(each, str):
                yield f"{path}[{key}] is {describe_value(each)}, and has to be text; put it in quotes"
    elif value is not None:
        yield f"{path} is {describe_value(value)}, and has to be a mapping"


def _refusal_text(fault: Fault) -> str:
    """A fault as a refusal has it: the field, what is wrong with it, and what to write."""
    path = ""
    for part in fault.path:
        path = f"{path}[{part}]" if isinstance(part, int) else _at(path, part)
    fix = fault.fix or _fix(fault.word, fault.allowed)
    return f"{path} {fault.message}; {fix}"


def _fix(name: str, fields: tuple[str, ...]) -> str:
    nearest, _ = meant(name, fields, noun="field")
    if nearest:
        return f"write {nearest}"
    others = " and others" if len(fields) > _MOST_LISTED else ""
    return f"remove it; there are: {', '.join(sorted(fields)[:_MOST_LISTED])}{others}"


def _at(path: str, name: str) -> str:
    if "/" in name or "." in name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


# What `--fix` writes beside what admission fills in: the answers that are the only ones.
#
# A choice, such as a smaller request or another pool, stays its author's.


def fix(body: Json, stack: Stack) -> None:
    """Change the object in place. What is malformed stays."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    body["metadata"].pop("resourceVersion", None)
    for _, job in _jobs(body):
        job.pop("selector", None)
        if isinstance(labels := mapping(job, "template", "metadata", "labels"), dict):
            for key in _UIDS:
                labels.pop(key, None)
    is_kai = stack.scheduler is Scheduler.KAI
    if is_kai and body["kind"] == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
        # KAI leaves KubeRay's submitter out of the group of the job's pods.
        spec["submissionMode"] = "HTTPMode"
    if body["kind"] == "RayService":
        service = mapping(spec, "rayClusterConfig", "headGroupSpec", "headService", "metadata")
        if isinstance(service, dict):
            service.pop("name", None)
    _write_words(spec)
    for pod in _pods(spec):
        _pod(pod, names.KAI_SCHEDULER if is_kai else "default-scheduler")


def _write_words(value: Any) -> None:
    """In upper and lower case as they have to be."""
    if isinstance(value, dict):
        for key in value.keys() & _CASES.keys():
            right = [word for word in _CASES[key] if word.lower() == str(value[key]).lower()]
            value[key] = right[0] if right else value[key]
    for each in value.values() if isinstance(value, dict) else objects_of(value):
        _write_words(each)


def _pods(value: object) -> Iterator[Json]:
    """The specs of every pod template in a value."""
    if isinstance(value, list):
        for each in value:
            yield from _pods(each)
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for each in value.values():
            yield from _pods(each)


def _pod(pod: Json, scheduler: str) -> None:
    if pod.get("schedulerName") not in (None, "", "default-scheduler", scheduler):
        pod["schedulerName"] = scheduler
    for volume in objects_of(pod.get("volumes")):
        if str(mapping(volume, "hostPath").get("path", "")).endswith("/shm"):
            del volume["hostPath"]
            volume["emptyDir"] = {"medium": "Memory"}
    for container in (*objects_of(pod.get("initContainers")), *pod["containers"]):
        resources = container.get("resources") if isinstance(container, dict) else None
        requests = mapping(resources, "requests") if isinstance(resources, dict) else {}
        for name, amount in requests.items():
            # Of devices Kubernetes takes no other limit than the request.
            if name in names.DEVICE_RESOURCES and isinstance(resources, dict):
                limits = resources.get("limits") or {}
                if isinstance(limits, dict) and name not in limits:
                    resources["limits"] = {**limits, name: amount}
