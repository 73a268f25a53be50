"""The page of what admission answers, from the rendered policies and from the functions of the webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
_OURS: Final = """\
## Limits of the controller's own account

They concern no tenant: should the controller be taken over, its account still writes nothing else.
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
    """A policy in force. `answers`: message -> the variants of the stack in which it is given."""

    name: str
    purpose: str
    effect: str
    judges: str
    spared: Sequence[str]
    answers: dict[str, list[str]]

    @property
    def is_of_our_account(self) -> bool:
        return self.name.startswith("muster-controller")


def policies() -> list[Documented]:
    """Every policy, as it is in stacks with each scheduler and in each mode."""
    found: dict[str, Documented] = {}
    for variant, each in variants().items():
        for policy, mode in in_force(each):
            words = dict(policy.words)
            listed = [sentence for rule in policy.rules for sentence in _parts(rule.message, words)]
            documented = found.setdefault(
                policy.name,
                Documented(
                    name=policy.name,
                    purpose=policy.purpose,
                    effect="warns" if mode is TenancyMode.WARN else "refuses",
                    judges="; ".join(map(_kinds, policy.kinds)),
                    spared=[name for name, _ in policy.unless],
                    answers={},
                ),
            )
            for sentence in listed:
                documented.answers.setdefault(sentence, []).append(variant)
    return [*found.values(), _of_ray(stack())]


def _parts(message: str, words: Mapping[str, str]) -> Iterator[str]:
    """The message, and the sentences that may be a part of it after an ellipsis."""
    whole, *inner = sentences(message, words)
    yield whole
    yield from (f"… {each}" for each in inner)


def _of_ray(of: Stack) -> Documented:
    """It is rendered with KubeRay, and is a warning where the stack only prefers a token."""
    policy, _ = ray.admission(of.ray)
    spec = policy["spec"]
    words = {each["name"]: each["expression"] for each in spec["variables"]}
    answers: list[str] = []
    for rule in spec["validations"]:
        given = rule.get("messageExpression")
        answers += _parts(given, words) if given else [rule["message"]]
    (kinds,) = spec["matchConstraints"]["resourceRules"]
    return Documented(
        name=ray.POLICY,
        purpose=ray.PURPOSE,
        effect="refuses; with `muster:ray: {auth: preferred}` warns",
        judges=_resources(kinds["resources"], kinds["operations"]),
        spared=(),
        answers={each: [KUEUE, KAI] for each in answers},
    )


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
        yield f"- Leaves alone: {spared}"
    yield ""
    rows = [(*_split(each), _with(where)) for each, where in found.answers.items()]
    if found.is_of_our_account:
        yield table(("What it says",), [(each,) for each in found.answers])
    else:
        yield table(("What it says", "What to write", "With"), rows)


def _split(message: str) -> tuple[str, str]:
    """A message says what is wrong, and then what to write."""
    says, separator, rest = (message, "", "")
    if match := re.search(r"; |\. (?=[A-Z])", message):
        says, separator, rest = message[: match.start()], match[0], message[match.end() :]
    return escape(says), escape(rest) if separator else ""


def _with(where: Sequence[str]) -> str:
    if KUEUE in where:
        return "" if KAI in where else KUEUE
    return where[0]


def _figures() -> list[tuple[str, ...]]:
    judged = stack()
    return [(case.title, *_split(answer(case, judged))) for case in CASES]
