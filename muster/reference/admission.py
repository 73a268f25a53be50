"""The page of what admission answers, from the rendered policies and from the functions of the webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.model.names import RECORDER
from muster.model.stack import Stack
from muster.model.tenancy import TenancyMode
from muster.reference.figures import CASES, KAI, KUEUE, STACK, answer, stack, variants
from muster.reference.markdown import WRITTEN, code, escape, table
from muster.reference.messages import sentences
from muster.render import ray
from muster.render.tenancy.policies import in_force
from muster.render.tenancy.policies.policy import Kinds

_HEAD: Final = f"""\
# What admission answers

{WRITTEN}

[What is refused when a job is submitted](../submission.md) explains who checks what, and `muster check` gives
the same answers offline. To find a message, search this page for a few of its words, or go to the policy that
the API server names: `ValidatingAdmissionPolicy 'muster-work' ... denied request`.

Words in capitals are placeholders of names, and `…` of what differs from case to case. A row that begins with
`…` is a part of the message above it. *With* is empty where both schedulers have the message.
"""
_FIGURES: Final = """\
## The webhooks: figures

The controller's webhooks compare what a job asks for with the nodes and with the queue. The functions that
answer in the cluster computed these messages for this stack:

```yaml
config:
{stack}```
"""
# A part of a message that says what to write and nothing else.
_FIX: Final = re.compile(r"(?P<before>… )(?:container …: )?(?:remove|set|use|name|mount|ask|no|\w+:) ")
_OURS: Final = """\
## Limits of our own accounts

They concern no tenant: should the controller or the recorder be taken over, its account still writes nothing
else.
"""


def page() -> str:
    """The whole page."""
    found = sorted(policies(), key=lambda each: each.is_of_our_account)
    rows = [(f"[`{each.name}`](#{each.name})", each.effect, each.purpose) for each in found]
    parts = [_HEAD, table(("Policy", "Effect", "Why"), rows)]
    for each in found:
        if not each.is_of_our_account:
            parts += _policy(each)
    parts += [_FIGURES.format(stack=STACK), table(("Refused", "What it says", "What to write"), _figures())]
    parts.append(_OURS)
    for each in found:
        if each.is_of_our_account:
            parts += _policy(each)
    return "\n".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """A policy in force. `answers`: message -> the message itself and its parts -> the variants of the stack
    in which each is given.
    """

    name: str
    purpose: str
    effect: str
    judges: str
    spared: Sequence[str]
    answers: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, sentences: Sequence[str], variant: str) -> None:
        """A message, then the sentences that may be a part of it after an ellipsis."""
        whole, *parts = sentences
        known = self.answers.setdefault(whole, {})
        for each in (whole, *(f"… {part}" for part in parts)):
            known.setdefault(each, []).append(variant)

    def rows(self) -> list[tuple[str, list[str]]]:
        return [row for parts in self.answers.values() for row in parts.items()]

    @property
    def is_of_our_account(self) -> bool:
        return self.name.startswith(("muster-controller", RECORDER))


def policies() -> list[Documented]:
    """Every policy, as it is in stacks with each scheduler and in each mode."""
    found: dict[str, Documented] = {}
    for variant, each in variants().items():
        for policy, mode in in_force(each):
            words = dict(policy.words)
            documented = found.setdefault(
                policy.name,
                Documented(
                    name=policy.name,
                    purpose=policy.purpose,
                    effect="warns" if mode is TenancyMode.WARN else "refuses",
                    judges="; ".join(map(_kinds, policy.kinds)),
                    spared=[name for name, _ in policy.unless],
                ),
            )
            for rule in policy.rules:
                documented.add(sentences(rule.message, words), variant)
    return [*found.values(), _of_ray(stack())]


def _of_ray(of: Stack) -> Documented:
    """It is rendered with KubeRay, and is a warning where the stack only prefers a token."""
    policy, _ = ray.admission(of.ray)
    spec = policy["spec"]
    words = {each["name"]: each["expression"] for each in spec["variables"]}
    (kinds,) = spec["matchConstraints"]["resourceRules"]
    found = Documented(
        name=ray.POLICY,
        purpose=ray.PURPOSE,
        effect="refuses; with `muster:ray: {auth: preferred}` warns",
        judges=_resources(kinds["resources"], kinds["operations"]),
        spared=(),
    )
    for rule in spec["validations"]:
        given = rule.get("messageExpression")
        for variant in (KUEUE, KAI):
            found.add(sentences(given, words) if given else [rule["message"]], variant)
    return found


def _kinds(kinds: Kinds) -> str:
    return _resources(kinds.resources, kinds.operations)


def _resources(resources: Iterable[str], operations: Iterable[str]) -> str:
    return f"{', '.join(map(code, resources))} ({', '.join(each.lower() for each in operations)})"


def _policy(found: Documented) -> Iterator[str]:
    yield f"## {found.name}\n"
    yield f"{found.purpose}\n"
    yield f"- Judges: {found.judges}"
    if found.spared and not found.is_of_our_account:
        spared = ", ".join(found.spared).replace("-", " ").replace("kuberay", "KubeRay")
        yield f"- Exempt: {spared}"
    yield ""
    rows = [(*_split(each), _with(where)) for each, where in found.rows()]
    if found.is_of_our_account:
        yield table(("What it says",), [(each,) for each, _ in found.rows()])
    else:
        yield table(("What it says", "What to write", "With"), rows)


def _split(message: str) -> tuple[str, str]:
    """A message says what is wrong, and then what to write."""
    if part := _FIX.match(message):
        return "…", escape(message[part.end("before") :])
    if middle := re.search(r"; |\. (?=[A-Z])", message):
        return escape(message[: middle.start()]), escape(message[middle.end() :].rstrip("."))
    return escape(message), ""


def _with(where: Sequence[str]) -> str:
    if KUEUE in where:
        return "" if KAI in where else KUEUE
    return where[0]


def _figures() -> list[tuple[str, ...]]:
    judged = stack()
    return [(case.title, *_split(answer(case, judged))) for case in CASES]
