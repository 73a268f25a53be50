"""What the API server refuses of an object by code, whatever its definition allows: names and labels,
selectors, words and negative numbers, and two items of one name in a list that is a map; and what the
webhooks of JobSet and LeaderWorkerSet refuse.

Source: https://github.com/kubernetes/kubernetes at v1.37.2, apimachinery/pkg/api/validation/objectmeta.go and
pkg/apis/{apps,batch,core}/validation/validation.go, read 2026-11-29; of schedules github.com/robfig/cron at
v3.0.1, parser.go, read 2026-11-29; of JobSet 0.12.0 pkg/webhooks/jobset_webhook.go and of LeaderWorkerSet
0.9.0 pkg/webhooks/leaderworkerset_webhook.go, read 2026-11-30
"""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster.check.manifests import Json, objects_of
from muster.controller.kueue.default_queue import mapping
from muster.model.names import LABEL_VALUE, QUALIFIED_NAME
from muster.model.quantities import many
from muster.model.work import GROUPED, value_at

OBJECT_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_NAMED: Final = ("priorityClassName", "runtimeClassName", "serviceAccountName")
# pkg/apis/batch/validation/validation.go
_LONGEST_CRON_JOB: Final = 52
_SCHEDULED: Final = ("CronJob", "RayCronJob")
WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "completionMode": ("Indexed", "NonIndexed"),
        "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
        "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
        "podManagementPolicy": ("OrderedReady", "Parallel"),
        "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
        "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    }
)
# The fields of a schedule: what they are called, their bounds, and the names that stand for numbers from the
# lower bound on.
_CRON: Final = (
    ("minutes", 0, 59, ""),
    ("hours", 0, 23, ""),
    ("days of the month", 1, 31, ""),
    ("months", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    ("days of the week", 0, 6, "sun mon tue wed thu fri sat"),
)
_CRON_FIELDS: Final = ", ".join(name for name, *_ in _CRON)
_CRON_RANGE: Final = re.compile(r"(?P<low>[*?]|[A-Za-z0-9]+)(-(?P<high>[A-Za-z0-9]+))?(/(?P<step>[0-9]+))?")
_CRON_WORDS: Final = re.compile(
    r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every (\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+)"
)
# Other kinds have words of their own by these names.
WORDS_OF_PODS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "restartPolicy": ("Always", "Never", "OnFailure"),
    }
)
_NOT_NEGATIVE: Final = (
    *("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completions", "maxFailedIndexes"),
    *("minReadySeconds", "parallelism", "replicas", "ttlSecondsAfterFinished"),
)


def validity_faults(body: Json) -> Iterator[str]:
    """Of an object whose fields have the types that they have to have."""
    name = body["metadata"].get("name") or f"{body['metadata'].get('generateName') or ''}x"
    if not body["metadata"].keys() & {"name", "generateName"}:
        yield "metadata.name is missing; write it, or generateName"
    elif not body["apiVersion"].startswith("ray.io/") and not OBJECT_NAME.fullmatch(name):
        yield f"metadata.name is {name!r}; write at most 253 of a-z, 0-9, - and ."
    elif body["kind"] == "CronJob" and len(name) > _LONGEST_CRON_JOB:
        yield f"metadata.name has {len(name)} characters; write at most {_LONGEST_CRON_JOB}"
    for key, value in mapping(body, "metadata", "labels").items():
        if not QUALIFIED_NAME.match(key) or not LABEL_VALUE.match(value):
            yield f"metadata.labels[{key}] is {value!r}; write at most 63 of A-Z, a-z, 0-9, -, _ and ."
    for key, value in mapping(body, "data").items() if body["kind"] == "Secret" else ():
        if not _is_base64(value):
            yield f"data.{key} is no base64; write it as text in stringData"
    if body["apiVersion"].startswith("apps/"):
        labels = mapping(body, "spec", "template", "metadata", "labels")
        selected = mapping(body, "spec", "selector", "matchLabels").items()
        for key, value in selected - labels.items():
            yield f"spec.selector.matchLabels[{key}] is {value!r}, which spec.template lacks; write it there"
    for path in (pods.template for kind in GROUPED if kind.kind == body["kind"] for pods in kind.pods):
        listed = value_at(body, path.groups) if path.field else ()
        names = Counter(value_at(each, path.field) for each in listed or ())
        for each in (each for each, count in names.items() if count > 1):
            yield f"{path.groups} has several of {path.field} {each}; give each a {path.field} of its own"
    if isinstance(schedule := mapping(body, "spec").get("schedule"), str) and body["kind"] in _SCHEDULED:
        yield from (f"spec.schedule {fault}" for fault in _schedule_faults(schedule))
        zone = mapping(body, "spec").get("timeZone")
        if isinstance(zone, str) and _is_zone("UTC") and not _is_zone(zone):
            yield f"spec.timeZone is {zone!r}; write one such as Etc/UTC or Europe/Zurich"
    if body["kind"] == "Deployment":
        yield from _rollout_faults(body)
    group = body["apiVersion"].partition("/")[0]
    yield from _field_faults(body.get("spec"), "spec", group)


def controller_faults(body: Json) -> Iterator[str]:
    """What the webhook of its controller refuses of an object whose fields have the types that they have to
    have.
    """
    if body["kind"] == "JobSet":
        yield from _jobset_faults(body)
    if body["kind"] == "LeaderWorkerSet":
        yield from _group_faults(body)


def _is_base64(text: str) -> bool:
    try:
        b64decode(re.sub(r"[\r\n]", "", text), validate=True)
    except ValueError:
        return False
    return True


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _jobset_faults(body: Json) -> Iterator[str]:
    """Where a JobSet names one of its replicated jobs that it does not have, or has later."""
    jobs = objects_of(value_at(body, "spec.replicatedJobs"))
    names = [str(each.get("name")) for each in jobs]
    rules = objects_of(value_at(body, "spec.failurePolicy.rules"))
    named = {
        "spec.successPolicy": value_at(body, "spec.successPolicy.targetReplicatedJobs") or [],
        "spec.failurePolicy": [name for rule in rules for name in rule.get("targetReplicatedJobs") or ()],
        "spec.coordinator": filter(None, [value_at(body, "spec.coordinator.replicatedJob")]),
    }
    for path, each in ((path, each) for path, listed in named.items() for each in listed):
        if each not in names:
            yield f"{path} names {each}, which is no replicated job of it; write {' or '.join(names)}"
    awaited = [(job, each.get("name")) for job in jobs for each in objects_of(job.get("dependsOn"))]
    for job, name in awaited:
        if name not in names[: jobs.index(job)]:
            yield f"dependsOn of {job.get('name')} names {name}; write one of spec.replicatedJobs before it"
    if awaited and value_at(body, "spec.startupPolicy.startupPolicyOrder") == "InOrder":
        yield "spec.startupPolicy and dependsOn exclude each other; keep one"


def _group_faults(body: Json) -> Iterator[str]:
    part = value_at(body, "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize")
    size = value_at(body, "spec.leaderWorkerTemplate.size") or 1
    if part is not None and (not 1 <= part <= size or size % part not in (0, 1 % part)):
        yield f"subGroupPolicy.subGroupSize is {part}, which does not divide size {size}; write one that does"


def _rollout_faults(body: Json) -> Iterator[str]:
    strategy = mapping(body, "spec", "strategy")
    rolling = mapping(strategy, "rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling:
        yield "spec.strategy.rollingUpdate goes with type RollingUpdate; remove it, or type Recreate"
    if all(rolling.get(key) in (0, "0", "0%") for key in ("maxSurge", "maxUnavailable")):
        yield "spec.strategy.rollingUpdate lets no pod be replaced; set maxSurge or maxUnavailable to 1"
    if not any(mapping(body, "spec", "selector").values()):
        yield "spec.selector selects nothing; write matchLabels with labels of spec.template"


def _schedule_faults(schedule: str) -> Iterator[str]:
    if "TZ=" in schedule:
        yield f"is {schedule!r}; write the zone in spec.timeZone"
    elif schedule.startswith("@"):
        if not _CRON_WORDS.fullmatch(schedule):
            yield f"is {schedule!r}; write @hourly, @daily, @weekly, @monthly, @yearly or `@every 1h30m`"
    elif len(fields := schedule.split()) != len(_CRON):
        yield f"is {schedule!r}, {many(len(fields), 'field')}; write {len(_CRON)}: {_CRON_FIELDS}"
    else:
        for field, (name, low, high, words) in zip(fields, _CRON, strict=True):
            if not all(_is_in_cron(each, low, high, words.split()) for each in field.split(",") if each):
                named = f", or {words[:3]} to {words[-3:]}" if words else ""
                yield f"has {field!r} for {name}; write numbers from {low} to {high}{named}, or *"


def _is_in_cron(text: str, low: int, high: int, words: Sequence[str]) -> bool:
    found = _CRON_RANGE.fullmatch(text)
    if found is None or (found["step"] and not int(found["step"])):
        return False
    if found["low"] in ("*", "?"):
        return True
    known = {word: low + index for index, word in enumerate(words)}
    ends = [known.get(each.lower(), each) for each in (found["low"], found["high"] or found["low"])]
    if not all(str(each).isdecimal() for each in ends):
        return False
    first, last = map(int, ends)
    return low <= first <= last <= high


def _field_faults(value: object, path: str, group: str) -> Iterator[str]:
    """Words, numbers and names at any depth. KubeRay's own rules judge the numbers of Ray, and names are
    judged when pods are made of the templates of other groups than Kubernetes' own.
    """
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _field_faults(each, f"{path}[{index}]", group)
    if not isinstance(value, Mapping):
        return
    words = {**WORDS, **(WORDS_OF_PODS if isinstance(value.get("containers"), list) else {})}
    for key, each in value.items():
        if isinstance(each, str) and key in words and each not in words[key]:
            yield f"{path}.{key} is {each!r}; write {' or '.join(words[key])}"
        elif isinstance(each, int) and each < 0 and key in _NOT_NEGATIVE and group != "ray.io":
            yield f"{path}.{key} is {each}; write 0 or more"
        elif isinstance(each, str) and key in _NAMED and group in ("apps", "batch"):
            if each and not OBJECT_NAME.fullmatch(each):
                yield f"{path}.{key} is {each!r}; write one of a-z, 0-9, - and ."
        else:
            yield from _field_faults(each, f"{path}.{key}", group)
