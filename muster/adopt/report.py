"""The report of an adoption, as text and as JSON."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from muster.adopt.adoption import Adoption
from muster.adopt.compare import LABELS, Fate, FieldChange, ObjectChange
from muster.adopt.findings import Finding
from muster.model.quantities import many
from muster.printable import sanitize_line

_LONGEST: Final = 2000


def to_json(adoption: Adoption, *, file: str) -> dict[str, Any]:
    """`file`: where the stack file was written, "" for nowhere."""
    return {
        "isExact": adoption.is_exact,
        "file": file,
        "stack": adoption.text,
        "mistakes": list(adoption.mistakes),
        "notExpressed": [
            {
                "object": each.object,
                "field": each.field,
                "reason": each.reason,
                "effect": each.effect,
                "matters": each.matters,
            }
            for each in adoption.findings
        ],
        "effects": None
        if adoption.effects is None
        else {
            "queues": adoption.effects.queues,
            "pools": adoption.effects.pools,
            "quotas": [{"queue": each.name, "pool": each.pool.name} for each in adoption.effects.quotas],
            "preemption": [
                {"preemptors": list(each.preemptors), "victims": list(each.victims)}
                for each in adoption.effects.preemption
            ],
        },
        "objects": [
            {
                "object": each.object,
                "fate": each.fate.value,
                "fields": [
                    {"path": field.path, "live": field.live, "written": field.written}
                    for field in each.fields
                ],
            }
            for each in adoption.objects
        ],
    }


def format_report(adoption: Adoption) -> str:
    """What changes, what is not in the stack, and what is said in other words; each with its object."""
    return "".join(f"{_sanitized(line)}\n" for line in _lines(adoption))


def _sanitized(line: str) -> str:
    """Names and values of the cluster are anyone's text."""
    plain = line.lstrip(" ")
    return line[: len(line) - len(plain)] + sanitize_line(plain, longest=_LONGEST)


def _lines(adoption: Adoption) -> Iterator[str]:
    yield from _summary(adoption)
    for mistake in adoption.mistakes:
        yield f"  not a valid stack: {mistake}"
    yield from _objects("Different in the stack", adoption.objects, Fate.DIFFERENT)
    yield from _findings("Not expressed", [each for each in adoption.findings if each.matters])
    yield from _findings("Expressed in other words", [each for each in adoption.findings if not each.matters])
    yield from _objects("Created", adoption.objects, Fate.CREATED)
    yield from _objects("Left alone", adoption.objects, Fate.KEPT)


def _summary(adoption: Adoption) -> Iterator[str]:
    fates = Counter(each.fate for each in adoption.objects)
    if adoption.is_exact:
        yield f"Nothing changes for anyone: {_taken_over(fates)}."
        yield from _effects(adoption)
        return
    if adoption.mistakes:
        yield "The stack file has mistakes; correct it before `pulumi up`:"
        return
    yield (
        f"{_taken_over(fates)}, and {many(fates[Fate.DIFFERENT], 'differs', 'differ')}; "
        "not everything is in the stack file:"
    )
    yield from _effects(adoption)


def _taken_over(fates: Counter[Fate]) -> str:
    return many(fates[Fate.UNCHANGED], "object is taken over as it is", "objects are taken over as they are")


def _effects(adoption: Adoption) -> Iterator[str]:
    found = adoption.effects
    if found is None:
        return
    compared = many(found.queues, "queue")
    if found.pools:
        compared += f" in {many(found.pools, 'pool')}"
    if found.is_empty:
        yield f"Quotas, borrowing and preemption of {compared}: no difference."
    for quota in found.quotas:
        yield f"  {quota.name}: another quota or limit in pool {quota.pool.name}"
    for right in found.preemption:
        yield f"  {', '.join(right.preemptors)}: other rights to preempt {', '.join(right.victims)}"


def _findings(heading: str, found: list[Finding]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield f"{heading}:"
    for each in found:
        where = f"{each.object}: {each.field}" if each.field else each.object
        yield f"  {where}: {each.reason} Effect: {each.effect}."


def _objects(heading: str, objects: tuple[ObjectChange, ...], fate: Fate) -> Iterator[str]:
    found = [each for each in objects if each.fate is fate]
    if not found:
        return
    yield ""
    yield f"{heading}:"
    for each in found:
        yield f"  {each.object}"
        for field in each.fields:
            yield f"    {_field(each, field)}"


def _field(change: ObjectChange, field: FieldChange) -> str:
    written = "not in the stack; it stays" if field.written is None else json.dumps(field.written)
    line = f"{field.path}: {json.dumps(field.live)} -> {written}"
    if not field.path.startswith(LABELS):
        return line
    kind, _, name = change.object.partition(" ")
    namespace, _, own = name.rpartition("/")
    label = field.path.removeprefix(LABELS)
    scope = f" -n {namespace}" if namespace else ""
    return (
        f"{line}. `pulumi up` writes nothing of this object while another client holds the label. Fix: take "
        f"the object out of that client's hands, then `kubectl label {kind.lower()} {own}{scope} {label}-`"
    )
