"""Writes a snapshot's Workload in the form in which the API server stores it, and the pods of a recorded job.

A Workload keeps its name, its age and its quota, and gets the same uid in every run. A pending one is stored
without status, so that Kueue decides about it anew.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from muster.live.fields import MisfitError, from_json, to_json
from muster.live.snapshot import Expression, PodSet, State, Term, Toleration, Workload
from muster.model import names
from muster.model.pools import Pool
from muster.printable import sanitize_line
from muster.replay.recording import Gap, Header, Job, Node, Recording, RecordingError
from muster.replay.recording import PodSet as RecordedPods

# The lines of a recording's file: JSON Lines, each an object with one key.
#     {"header": {"version": 3, "scheduler": "kueue", "start": 1764000000.0, ...}}   the first line
#     {"job": {"id": "5f1c...", "team": "vision", "runs": [...], ...}}   a job, as it is known so far
#     {"node": {"id": "81aa...", "pool": "h100", "usable": [...], ...}}   a node, as it is known so far
#     {"mark": 1764000300.0}             everything until this time is recorded
#     {"gap": {"start": ..., "end": ...}}   nothing was recorded in this time
# The later line of a job or a node replaces its earlier ones, so that a recorder only appends and a line that
# is written twice changes nothing. Fields that have their default value are left out. A later header adds to
# the first: with it a recorder goes on with a file of version 1, which has no nodes.

VERSION: Final = 3
_READABLE: Final = (1, 2, VERSION)
_DIGITS: Final = 3
# The first second of the year 10000, which no date can show.
_TOO_LATE: Final = 253_402_300_800.0
NO_RECORDING: Final = "write one with `muster record`, or with `muster record import`."


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything until this time is recorded."""

    at: float


Line = Header | Job | Node | Gap | Mark


def format_line(line: Line) -> bytes:
    """One line, with its line break."""
    match line:
        case Header():
            found: object = {"header": {"version": VERSION, **to_json(line, omits_defaults=True)}}
        case Job():
            found = {"job": to_json(line, omits_defaults=True)}
        case Node():
            found = {"node": to_json(line, omits_defaults=True)}
        case Gap():
            found = {"gap": to_json(line)}
        case Mark():
            found = {"mark": line.at}
    return json.dumps(_rounded(found), separators=(",", ":")).encode() + b"\n"


def parse_line(text: bytes, *, place: str) -> Line:
    """The line in a text; RecordingError when it is none. `place` is the file and the number of the line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _misfit(place, "not JSON") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise _misfit(place, 'expected an object with one key, such as {"job": ...}')
    ((key, value),) = found.items()
    try:
        line = _parse(key, value, place)
    except MisfitError as error:
        raise _misfit(place, sanitize_line(str(error)).rstrip(".")) from None
    # Not a number is in no range.
    if not all(0 <= each < _TOO_LATE for each in _times(line)):
        raise _misfit(place, "a time is not between 1970 and 9999, in seconds since 1970")
    return line


def fold(lines: Iterable[Line], *, source: str) -> Recording:
    """The recording that the lines describe; RecordingError where there is none. The first is a header."""
    header: Header | None = None
    jobs: dict[str, Job] = {}
    nodes: dict[str, Node] = {}
    gaps: list[Gap] = []
    for line in lines:
        match line:
            case Header():
                header = line if header is None else _merged(header, line)
            case Job():
                jobs[line.id] = line
            case Node():
                nodes[line.id] = line
            case Gap():
                gaps.append(line)
            case Mark(at) if header is not None:
                header = replace(header, end=max(header.end, at))
    if header is None:
        raise RecordingError(f"{source}: the file is empty.", fix=NO_RECORDING)
    ordered = sorted(jobs.values(), key=lambda job: (job.created, job.tie, job.id))
    bought = sorted(nodes.values(), key=lambda node: (node.created, node.id))
    return Recording(header=header, jobs=tuple(ordered), nodes=tuple(bought), gaps=tuple(gaps))


def _merged(header: Header, later: Header) -> Header:
    nodes_from = later.nodes_from if header.nodes_from is None else header.nodes_from
    return replace(header, end=max(header.end, later.end), nodes_from=nodes_from)


def _parse(key: str, value: object, place: str) -> Line:
    match key:
        case "header":
            return _parse_header(value, place)
        case "job":
            return from_json(Job, value, "job")
        case "node":
            return from_json(Node, value, "node")
        case "gap":
            return from_json(Gap, value, "gap")
        case "mark":
            return from_json(Mark, {"at": value}, "mark")
    known = "header, job, node, mark, gap"
    raise _misfit(place, f"unknown key {sanitize_line(key, longest=40)!r}; allowed: {known}")


def _times(line: Line) -> Iterator[float]:
    match line:
        case Header():
            yield from (line.start, line.end, line.end if line.nodes_from is None else line.nodes_from)
        case Gap():
            yield from (line.start, line.end)
        case Node():
            left = line.created if line.left is None else line.left
            yield from (line.created, left, *(each.at for each in line.usable))
            yield from (each.at for each in line.booked)
        case Mark():
            yield line.at
        case Job():
            runs = ((run.reserved, run.admitted, run.evicted, run.ended, run.idle) for run in line.runs)
            found = (line.created, line.arrived, line.left, *(each for run in runs for each in run))
            yield from (each for each in found if each is not None)


def _parse_header(value: object, place: str) -> Header:
    if not isinstance(value, dict):
        raise MisfitError("header: expected Header.")
    version = value.get("version")
    if version not in _READABLE:
        raise RecordingError(
            f"{place}: version {sanitize_line(str(version), longest=20)} of the format; this Muster reads "
            f"versions {_READABLE[0]} to {VERSION}.",
            fix="use the Muster that wrote it, or record again.",
        )
    return from_json(Header, {name: each for name, each in value.items() if name != "version"}, "header")


def _misfit(place: str, what: str) -> RecordingError:
    return RecordingError(f"{place}: {what}.", fix="remove the line, or record again.")


def _rounded(value: object) -> object:
    """Times to the millisecond: more digits are noise, and cost room."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


PREFIX: Final = "/registry/kueue.x-k8s.io/workloads"
_SPACE: Final = uuid.UUID("0c0b6f0e-3f0d-4b6e-9d5c-5a1c8f1f6e2a")
_IMAGE: Final = "none"  # no pod is ever created from it


def key(workload: Workload) -> str:
    """The etcd key under which the API server finds it."""
    return f"{PREFIX}/{workload.namespace}/{workload.name}"


def uid(namespace: str, name: str) -> str:
    return str(uuid.uuid5(_SPACE, f"{namespace}/{name}"))


def value(workload: Workload) -> bytes:
    """The object, as JSON."""
    body = holding(workload) if workload.is_holding else {**pending(workload), "status": {}}
    return json.dumps(body, separators=(",", ":")).encode()


def holding(workload: Workload) -> dict[str, Any]:
    """The object of one that holds quota."""
    return {**pending(workload), "status": _status(workload)}


def pending(workload: Workload) -> dict[str, Any]:
    """The object without a status."""
    return {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": {
            "namespace": workload.namespace,
            "name": workload.name,
            "uid": uid(workload.namespace, workload.name),
            "creationTimestamp": format_time(workload.created),
            "generation": 1,
        },
        "spec": _spec(workload),
    }


def _spec(workload: Workload) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "queueName": workload.queue,
        "priority": workload.priority,
        "active": workload.state is not State.INACTIVE,
        "podSets": [_pod_set(each) for each in workload.pod_sets],
    }
    if workload.priority_class:
        group = names.KUEUE_API_VERSION.partition("/")[0]
        kind = "WorkloadPriorityClass"
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": workload.priority_class}
    return spec


def _pod_set(pods: PodSet) -> dict[str, Any]:
    container = {"name": "work", "image": _IMAGE, "resources": {"requests": quantities(pods.requests)}}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if pods.node_selector:
        spec["nodeSelector"] = dict(pods.node_selector)
    if pods.tolerations:
        spec["tolerations"] = [toleration(each) for each in pods.tolerations]
    if pods.terms:
        required = {"nodeSelectorTerms": [term(each) for each in pods.terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = {"name": pods.name, "count": pods.count, "template": {"metadata": {}, "spec": spec}}
    return found if pods.min_count is None else {**found, "minCount": pods.min_count}


def _status(workload: Workload) -> dict[str, Any]:
    """Quota reserved and admitted. All admission checks count as Ready."""
    at = workload.since("QuotaReserved") or workload.created
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "As in the snapshot.",
            "lastTransitionTime": format_time(at),
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    assignments = [
        {
            "name": each.name,
            "count": each.count if each.assigned is None else each.assigned,
            "flavors": dict(each.flavors),
            "resourceUsage": quantities(each.usage),
        }
        for each in workload.pod_sets
    ]
    admission = {"clusterQueue": workload.cluster_queue, "podSetAssignments": assignments}
    return {"conditions": conditions, "admission": admission}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts in the units of a snapshot as Kubernetes writes them."""
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def toleration(found: Toleration) -> dict[str, str]:
    """The toleration of a pod's spec."""
    values = {"key": found.key, "operator": found.operator, "value": found.value, "effect": found.effect}
    return {name: word for name, word in values.items() if word}


def term(found: Term) -> dict[str, Any]:
    """The term of a node affinity."""
    return {
        "matchExpressions": [
            {
                "key": each.key,
                "operator": each.operator,
                **({"values": list(each.values)} if each.values else {}),
            }
            for each in found.expressions
        ]
    }


def format_time(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_pods(pods: RecordedPods, pools: Sequence[Pool]) -> PodSet:
    """A list that names pools gets the selector of these pools, and whatever their taints ask for. Pods with
    GPUs of no pool tolerate those of every pool, as admission fills in, and pods without GPUs of none.
    """
    known = _named_pools(pods, pools)
    terms, tolerations = pods.terms, pods.tolerations
    if not (pods.node_selector or terms):
        terms = _pool_terms(known)
        asks = any(pods.requests.get(each) for each in names.DEVICE_RESOURCES)
        tolerations = tolerations or tuple(_tolerations(known or (pools if asks else ())))
    return PodSet(
        name=pods.name,
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        node_selector=pods.node_selector,
        tolerations=tolerations,
        terms=terms,
    )


def _named_pools(pods: RecordedPods, pools: Sequence[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.name in pods.pools or pool.flavor in pods.pools]


def has_pool(pods: RecordedPods, pools: Sequence[Pool]) -> bool:
    """The scheduler judges a selector of the job's own; a list has names alone."""
    return bool(pods.node_selector or pods.terms or not pods.pools or _named_pools(pods, pools))


def _pool_terms(pools: Sequence[Pool]) -> tuple[Term, ...]:
    if not pools:
        return ()
    return (Term((Expression(names.POOL_LABEL, "In", tuple(pool.name for pool in pools)),)),)


def _tolerations(pools: Sequence[Pool]) -> Iterator[Toleration]:
    for taint in sorted({pool.device for pool in pools if pool.is_gpu}):
        yield Toleration(taint, "Exists", "", "")


# Converts the pods of a cluster to those of a recording. Pure.

_HOST: Final = "kubernetes.io/hostname"


def to_pod_set(found: PodSet, index: int, *, with_names: bool) -> RecordedPods:
    """`index`: its place in the job, which replaces its name. The worker groups of a Ray cluster have names
    of the user's.
    """
    pods = found if with_names else _without_host(found)
    pool = pods.node_selector.get(names.POOL_LABEL)
    return RecordedPods(
        name=pods.name if with_names else f"p{index}",
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        pools=(pool,) if pool else (),
        node_selector=pods.node_selector,
        tolerations=pods.tolerations,
        terms=pods.terms,
    )


def _without_host(found: PodSet) -> PodSet:
    """Without the names of nodes. Kueue chooses no flavor by them: it reads labels that flavors have and no
    others. Where nothing is left of one term, every flavor matches (0.19, pkg/scheduler/flavorassigner,
    flavorSelector).
    """
    terms = [
        replace(term, expressions=tuple(each for each in term.expressions if each.key != _HOST))
        for term in found.terms
    ]
    return replace(
        found,
        node_selector={key: value for key, value in found.node_selector.items() if key != _HOST},
        terms=tuple(terms) if all(term.expressions for term in terms) else (),
    )
