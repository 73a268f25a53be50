"""The result of a check as text for people and as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from muster.check.admission import KUBELET, Admission, Answer
from muster.check.demands import Bounds, Demand, bounds, demands, gang, queue_name, volume_faults
from muster.check.manifests import Json, title
from muster.check.policies import Finding, Level
from muster.model.pods import Amounts, describe, figure
from muster.model.quantities import many
from muster.model.queuetree import ANY_POOL

NOT_CHECKED: Final = (
    "what Kueue's and the cloud's own webhooks refuse",
    "how many objects the namespace may hold, and what runs or waits there now",
)
UNLIMITED: Final = "unlimited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One object: the answer of admission, and what it asks for."""

    body: Json
    answer: Answer
    queue: str
    demands: tuple[Demand, ...]
    bounds: dict[str, Bounds]


def result(admission: Admission, body: Json) -> Result:
    answer = admission.review(body)
    found = demands(admission, answer.object)
    volumes = (Finding(Level.WARNED, KUBELET, each) for each in volume_faults(admission, found))
    return Result(
        body=body,
        answer=replace(answer, findings=(*answer.findings, *volumes)),
        queue=queue_name(admission, answer.object) if found else "",
        demands=found,
        bounds=bounds(admission, answer.object) if found else {},
    )


def text(results: Sequence[Result], *, stack: str, team: str) -> str:
    lines = [line for each in results for line in (*_lines(each, stack=stack, team=team), "")]
    return "\n".join([*lines, f"Not checked offline: {'; '.join(NOT_CHECKED)}.", ""])


def record(results: Sequence[Result], *, stack: str, team: str) -> dict[str, Any]:
    return {
        "stack": stack,
        "team": team,
        "admitted": all(each.answer.is_admitted for each in results),
        "objects": [_record(each) for each in results],
        "notChecked": list(NOT_CHECKED),
    }


def _lines(result: Result, *, stack: str, team: str) -> Iterator[str]:
    verdict = "would be admitted" if result.answer.is_admitted else "would be refused"
    yield f"{title(result.body)}: {verdict} in the namespace of team {team} (stack {stack})"
    for level in Level:
        for finding in _of(result.answer.findings, level):
            yield f"  {level.value:<9}{finding.message} [{finding.by}]"
    for path, value in result.answer.filled:
        yield f"  filled in {path}: {_plain(value)}"
    if not result.demands:
        return
    queue = f", from queue {result.queue}" if result.queue else ""
    yield f"  asks for {_described(gang(result.demands))} in all{queue}"
    for demand in result.demands:
        each = " each" if demand.pods > 1 else ""
        yield f"    {demand.name}: {many(demand.pods, 'pod')}, {_described(demand.each)}{each}"
        for place in demand.places:
            fits = f"fits, {many(place.nodes, 'node')}" if place.nodes else "fits"
            yield f"      pool {place.pool}: {place.reason or fits}"
    for pool, held in result.bounds.items():
        if held:
            where = "in all pools together" if pool == ANY_POOL else f"in pool {pool}"
            yield f"  limit of queue {result.queue} {where}: {_bound(held)}"


def _described(amounts: Amounts) -> str:
    return describe({name: amount for name, amount in amounts.items() if amount}) or "no resources"


def _bound(held: Bounds) -> str:
    amounts = {name: amount for name, amount in held.items() if amount is not None}
    return _described(amounts) if amounts else UNLIMITED


def _of(findings: Sequence[Finding], level: Level) -> list[Finding]:
    return [each for each in findings if each.level is level]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _record(result: Result) -> dict[str, Any]:
    def findings(level: Level) -> list[dict[str, str]]:
        return [{"by": each.by, "message": each.message} for each in _of(result.answer.findings, level)]

    return {
        "object": title(result.body),
        "admitted": result.answer.is_admitted,
        **{level.value: findings(level) for level in Level},
        "filled": [{"path": path, "value": value} for path, value in result.answer.filled],
        "queue": result.queue,
        "asks": _amounts(gang(result.demands)),
        "groups": [
            {
                "name": demand.name,
                "pods": demand.pods,
                "each": _amounts(demand.each),
                "pools": [
                    {
                        "pool": place.pool,
                        "fits": not place.reason,
                        "nodes": place.nodes,
                        "reason": place.reason,
                    }
                    for place in demand.places
                ],
            }
            for demand in result.demands
        ],
        "queueHolds": {
            pool: {
                name: UNLIMITED if amount is None else figure(name, amount) for name, amount in held.items()
            }
            for pool, held in result.bounds.items()
        },
    }


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {name: figure(name, amount) for name, amount in amounts.items()}
