"""The page of what admission answers, from the rendered policies and from the functions of the webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import yaml

from muster.check.admission import FIGURES, Admission
from muster.config import parse
from muster.model.names import RECORDER
from muster.model.stack import Stack
from muster.model.tenancy import TenancyMode
from muster.render import ray
from muster.render.tenancy.policies import in_force
from muster.render.tenancy.policies.policy import Kinds
from release.reference.markdown import WRITTEN, code, escape, item, table

# Jobs that the webhooks refuse for a figure, and the stacks that the page of admission is about.

KUEUE: Final = "Kueue"
KAI: Final = "KAI"
WARN: Final = "`muster:tenancy.mode: warn`"
PLACEHOLDERS: Final = "`gangs: placeholders`"
FORECASTS: Final = "`muster:recording.forecasts`"
_TPUS: Final = "    tpu: {machine: ct5lp-hightpu-4t, topology: 4x4, maxNodes: 4, zones: [us-central1-a]}\n"
STACK: Final = """\
  muster:cluster:
    provider: gke
    name: research
    project: my-project
    region: us-central1
    authorizedNetworks: {office: 198.51.100.0/24}
  muster:pools:
    cpu: {machine: e2-standard-8, maxNodes: 4}
    l4: {machine: g2-standard-8, capacity: queued, maxNodes: 8}
    h200: {machine: a3-ultragpu-8g, capacity: queued, maxNodes: 2}
    tpu: {machine: ct5lp-hightpu-4t, topology: 4x4, maxNodes: 4, zones: [us-central1-a]}
  muster:priorities: {prod: 1000, dev: 100}
  muster:departments:
    research:
      teams:
        vision: {quota: {l4: 4}, borrow: {l4: 2}}
        speech: {quota: {l4: unlimited, tpu: unlimited}}
"""
_GPU: Final = "nvidia.com/gpu"
_POOL: Final = "muster.dev/pool"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A batch Job that the webhooks refuse. `pod`: fields of its pods besides the container."""

    title: str
    team: str
    pods: int = 1
    requests: Mapping[str, str]
    pod: Mapping[str, Any]

    def body(self) -> Json:
        container = {
            "name": "main",
            "image": "example.com/train:1",
            "resources": {"limits": dict(self.requests)},
        }
        pod = {"restartPolicy": "Never", "containers": [container], **self.pod}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {
                "parallelism": self.pods,
                "completions": self.pods,
                "suspend": True,
                "template": {"spec": pod},
            },
        }


CASES: Final = (
    Case(title="a pod larger than any node", team="vision", requests={_GPU: "2"}, pod={}),
    Case(title="more nodes than the pool can have", team="speech", pods=9, requests={_GPU: "1"}, pod={}),
    Case(title="more than the queue can ever hold", team="vision", pods=7, requests={_GPU: "1"}, pod={}),
    Case(
        title="a resource of which the queue has no quota",
        team="vision",
        requests={_GPU: "1", "ephemeral-storage": "10Gi"},
        pod={},
    ),
    Case(
        title="pods without GPUs that may go to GPU nodes alone",
        team="vision",
        requests={"cpu": "1"},
        pod={"nodeSelector": {_POOL: "l4"}},
    ),
    Case(
        title="a part of a TPU slice",
        team="speech",
        pods=3,
        requests={"google.com/tpu": "4"},
        pod={"nodeSelector": {_POOL: "tpu"}},
    ),
)


def variants() -> dict[str, Stack]:
    """A stack with each scheduler, and those that have further policies or messages."""
    without_tpus = yaml.safe_load(STACK.replace(_TPUS, "").replace(", tpu: unlimited", ""))
    return {
        KUEUE: stack(),
        KAI: stack({**without_tpus, "muster:scheduler": "kai"}),
        WARN: stack({"muster:tenancy": {"mode": "warn"}}),
        PLACEHOLDERS: stack(
            yaml.safe_load(STACK.replace("capacity: queued, maxNodes: 8", "gangs: placeholders, maxNodes: 8"))
        ),
        FORECASTS: stack({"muster:recording": {"enabled": True, "forecasts": True}}),
    }


def stack(changes: Mapping[str, Any] = MappingProxyType({})) -> Stack:
    """The stack of the page, with other sections."""
    return parse({**yaml.safe_load(STACK), **changes}, source=__name__)


def answer(case: Case, of: Stack) -> str:
    """What the webhooks say to a case."""
    found = Admission(of, case.team).review(case.body()).findings
    (message,) = (each.message for each in found if each.by == FIGURES)
    return message


# The sentences that a CEL expression can answer, as a reader sees them.
# A message is a sum of strings and of values. Strings stay, a value becomes a word in capitals or an
# ellipsis. What a value may contain (the faults of a list) are further sentences, also those of the
# variables that it reads.

_ELLIPSIS: Final = "…"
_SEPARATOR: Final = re.compile(r" \? | : |, | \|\| | && ")
_COLON: Final = re.compile(r": ")
_COMPARISON: Final = re.compile(r" (?:==|!=|<|<=|>|>=|in) ")
_PLUS: Final = re.compile(r" \+ ")
_VARIABLE: Final = re.compile(r"\bvariables\.(\w+)")
# What a value is shown as, by the first pattern that matches.
_SHOWN: Final = (
    (r"(object\.kind)", "KIND"),
    (r"object\.metadata\.\??name", "NAME"),
    (r"request\.name", "NAME"),
    (r"variables\.account", "NAME"),
    (r"request\.resource\.resource", "RESOURCE"),
    (r"variables\.queues", "QUEUES"),
    (r"variables\.priorities", "PRIORITIES"),
    (r"variables\.jobPath", ""),
    (r"variables\.(clusterPath|path)$", "PATH"),
)


def sentences(expression: str, variables: Mapping[str, str]) -> list[str]:
    """The message itself first, then each sentence that may be a part of it."""
    expression, variables = _line(expression), {name: _line(text) for name, text in variables.items()}
    found = dict.fromkeys((_text(split(expression, _PLUS)), *_sentences(expression)))
    seen: set[str] = set()
    waiting = _VARIABLE.findall(expression)
    while waiting:
        name = waiting.pop(0)
        if name not in seen and name in variables:
            seen.add(name)
            found |= dict.fromkeys(_sentences(variables[name]))
            waiting = _VARIABLE.findall(variables[name]) + waiting
    return list(found)


def _line(expression: str) -> str:
    """The expression on one line. No string of a policy has two spaces in a row."""
    return " ".join(expression.split())


def _sentences(expression: str) -> Iterator[str]:
    parts = split(expression, _PLUS)
    if any(_is_literal(part) for part in parts):
        text = _text(parts)
        fewest = 4 if text.startswith(_ELLIPSIS) else 1
        if len(re.findall(r"\S \S", text.replace(_ELLIPSIS, ""))) >= fewest:
            yield text
        parts = [part for part in parts if not _is_literal(part)]
    for part in parts:
        for inner in _brackets(part):
            for each in split(inner, _SEPARATOR):
                # Neither what is compared nor the place of a fault is a sentence.
                if len(split(each, _COMPARISON)) == 1 and not each.startswith("'path': "):
                    yield from _sentences(split(each, _COLON)[-1])


def _text(parts: Sequence[str]) -> str:
    return "".join(map(_shown, parts)).strip("; ")


def _shown(part: str) -> str:
    if _is_literal(part):
        return part[1:-1].replace("\\'", "'").replace('\\"', '"')
    for pattern, word in _SHOWN:
        if re.match(pattern, part):
            return word
    return _ELLIPSIS


def _is_literal(part: str) -> bool:
    return part[:1] in ("'", '"') and _end_of_string(part, 0) == len(part)


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Parts between separators that are in no bracket and no string."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        if match := separator.match(text, at):
            parts.append(text[begin:at])
            begin = at = match.end()
        else:
            at = _next(text, at)
    return [part.strip() for part in (*parts, text[begin:])]


def _brackets(text: str) -> Iterator[str]:
    """What is in the outermost brackets."""
    at = 0
    while at < len(text):
        end = _next(text, at)
        if text[at] in "([{":
            yield text[at + 1 : end - 1]
        at = end


def _next(text: str, at: int) -> int:
    """The position after the string, the bracket or the letter that begins here."""
    if text[at] in "'\"":
        return _end_of_string(text, at)
    if text[at] not in "([{":
        return at + 1
    at += 1
    while text[at] not in ")]}":
        at = _next(text, at)
    return at + 1


def _end_of_string(text: str, at: int) -> int:
    quote, end = text[at], at + 1
    while text[end] != quote:
        end += 2 if text[end] == "\\" else 1
    return end + 1


_HEAD: Final = f"""\
# What admission answers

{WRITTEN}

[What is refused when a job is submitted](../submission.md) explains who checks what, and `muster check` gives
the same answers offline. The API server names the policy: `ValidatingAdmissionPolicy 'muster-work' ... denied
request`. Its message goes on with what to write; below are what it says is wrong, and why that is refused.

Words in capitals are placeholders of names, and `…` of what differs from case to case.
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
_FIX: Final = re.compile(r"… (?:container …: )?(?:remove|set|use|name|mount|ask|no|\w+:) ")
_OURS: Final = """\
## Limits of our own accounts

They concern no tenant: should the controller or the recorder be taken over, its account still writes nothing
else.
"""


def page() -> str:
    """The whole page."""
    found = sorted(policies(), key=lambda each: each.is_of_our_account)
    parts = [_HEAD]
    for each in found:
        if not each.is_of_our_account:
            parts += _policy(each)
    parts += [_FIGURES.format(stack=STACK), table(("Refused", "What it says", "What to write"), _figures())]
    ours = (item(code(each.name), (), each.purpose) for each in found if each.is_of_our_account)
    parts += [_OURS, "\n".join(ours), ""]
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
        purpose=ray.judged(of.ray).purpose,
        effect="refuses; with `muster:ray: {auth: preferred}` warns",
        judges=_resources(kinds["resources"], kinds["operations"]),
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
    effect = "" if found.effect == "refuses" else f" Effect: {found.effect}."
    yield f"{found.purpose}{effect} Judges {found.judges}.\n"
    lines: dict[str, list[str]] = {}
    for message, where in found.rows():
        if not _FIX.match(message):
            lines.setdefault(_split(message)[0].removeprefix("… "), []).append(_with(where))
    for text, schedulers in lines.items():
        is_of_both = "" in schedulers or {KUEUE, KAI} <= {*schedulers}
        yield f"- {text}" if is_of_both else f"- {text} ({', '.join(dict.fromkeys(schedulers))})"
    yield ""


def _split(message: str) -> tuple[str, str]:
    """A message says what is wrong, and then what to write."""
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
