"""Findings of the preflight checks, each with its fix."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from muster.config.schema import stack_schema
from muster.distribution import install_command
from muster.errors import MusterError
from muster.model.accelerators import ACCELERATORS
from muster.model.machines import MACHINES
from muster.model.pools import Pool
from muster.model.stack import Stack


class State(StrEnum):
    """unknown: the check could not be made, so the result is neither good nor bad. note: to be known, and
    nothing to correct.
    """

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` is empty when it passed."""

    check: str
    state: State
    message: str
    fix: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Iterable[tuple[str, Check]], *, extra: str = "program") -> Iterator[Finding]:
    """Yield every finding as soon as it is known. A check that raises an error is reported as unknown.
    `extra`: the one of the wheel that brings what the checks import.
    """
    for name, check in checks:
        try:
            yield from check()
        except ModuleNotFoundError as error:
            what = f"needs the Python package {error.name}, which is not installed"
            yield Finding(name, State.UNKNOWN, what, f"install it: {install_command(extra)}")
        except Exception as error:
            what, fix = (error.message, error.fix) if isinstance(error, MusterError) else (str(error), "")
            again = "correct the error and run the command again"
            yield Finding(name, State.UNKNOWN, f"the check failed: {what}", fix or again)


def passed(check: str, message: str) -> Finding:
    return Finding(check, State.OK, message)


def failed(check: str, message: str, fix: str) -> Finding:
    return Finding(check, State.FAILED, message, fix)


def zones_finding(
    pool: Pool, *, zones: Collection[str], of_region: Collection[str], sold: Collection[str]
) -> Finding:
    """Whether the cloud sells a pool's machine where the pool is. `zones`: those of the pool, empty where
    the cloud chooses among `of_region`. `sold`: the zones of the region that sell it.
    """
    machine = pool.machine.name
    offered = ", ".join(sorted(sold))
    if not sold:
        fix = "choose another region or machine."
        return failed("zones", f"{pool.name}: no zone of the region sells {machine}", fix)
    missing = sorted(set(zones or of_region) - set(sold))
    fix = f"write `zones: [{offered}]` for the pool, or some of them."
    if missing and zones:
        return failed("zones", f"{pool.name}: {machine} is not sold in {', '.join(missing)}", fix)
    if missing:
        message = f"{pool.name}: the cloud chooses zones, and {', '.join(missing)} have no {machine}"
        return failed("zones", message, fix)
    return passed("zones", f"{pool.name}: {machine} is sold in {', '.join(sorted(zones)) or 'every zone'}")


# Takes the user's names out of text that he may publish.
# A word of the stack file stays only if it belongs to the language: a key, an allowed value, a machine. Every
# other text in it is a name, and so is what has the form of an address or of an account.

_SHORTEST: Final = 2
_PARTS: Final = re.compile(r"[/:@]+")
_FORMS: Final = {
    "URL": r"\b[a-z][a-z0-9+]*://\S+",
    "ARN": r"\barn:[\w:/*.@-]+",
    "EMAIL": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "ID": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b\d{10,}\b|\b[a-z]+-[0-9a-f]{8,17}\b",
    "ADDRESS": r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?\b|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F:]*",
    "HOST": r"\b(?![\w.-]*\.googleapis\.com)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\.[a-z]{2,}\b",
    "ACCOUNT": r"\b[\w.-]+@[\w.-]+",
    "PATH": r"(?<![\w.])(?:~|/[\w.-]+)(?:/[\w.-]+)+",
}
_FORM: Final = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items()))


class Anonymizer:
    """The same name becomes the same token everywhere."""

    def __init__(self, document: Mapping[str, object], *more: str) -> None:
        words = _words(stack_schema()) | set(MACHINES) | set(ACCELERATORS)
        known = {each.lower() for each in words}
        named = {each.lower() for text in (*_texts(document), *more) for each in _names(text)}
        found = {each for each in named if len(each) >= _SHORTEST and not each.isdigit()} - known
        # The longest first: a name may contain another.
        ordered = sorted(found, key=lambda each: (-len(each), each))
        self._tokens = {name: f"NAME-{number}" for number, name in enumerate(ordered, start=1)}
        names = "|".join(re.escape(each) for each in ordered)
        form = rf"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])"
        self._name = re.compile(form, re.IGNORECASE) if names else None

    def __call__(self, text: str) -> str:
        text = _FORM.sub(lambda match: str(match.lastgroup), text)
        return self._name.sub(lambda match: self._tokens[match[0].lower()], text) if self._name else text


def _names(text: str) -> tuple[str, ...]:
    """A text, and where it is no sentence, what it is put together from: a path, an image, an account."""
    return (text,) if " " in text else (text, *_PARTS.split(text))


def _texts(value: object) -> Iterator[str]:
    """Every key and every text below a value."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield str(key).removeprefix("muster:")
            yield from _texts(below)
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below)
    elif isinstance(value, str):
        yield value


def _words(value: object) -> set[str]:
    """The property names and allowed values of a JSON Schema."""
    if isinstance(value, list):
        return set().union(*map(_words, value))
    if not isinstance(value, Mapping):
        return set()
    own = {str(key).removeprefix("muster:") for key in value.get("properties", {})}
    own |= {each for each in value.get("enum", []) if isinstance(each, str)}
    own |= {each for each in [value.get("const")] if isinstance(each, str)}
    return own.union(*(_words(each) for each in value.values()))


# The record of a run on a real project, without names: what a user can attach to a report.
#
# Responsible for what is in it. Figures and words of the stack language are taken one by one; free text (what
# a check found) goes through Anonymizer.

FORMAT: Final = "muster.first-run/1"


def record(
    stack: Stack,
    *,
    document: Mapping[str, object],
    findings: Iterable[Finding],
    updates: list[dict[str, Any]],
    name: str,
    version: str,
) -> dict[str, Any]:
    """`document`: the stack file's values. `updates`: what history.updates returned. `name`: the stack's."""
    without_names = Anonymizer(document, name)
    return {
        "format": FORMAT,
        "muster": version,
        "cluster": _cluster(stack),
        "scheduler": stack.scheduler.value,
        "teams": sum(1 for _ in stack.teams()),
        "pools": [_pool(each) for each in stack.pools],
        "findings": [_finding(each, without_names) for each in findings],
        "updates": updates,
    }


def _finding(finding: Finding, without_names: Anonymizer) -> dict[str, str]:
    """Without the message of a lock, which names its holder and the machine: no stack file contains them."""
    found = {key: without_names(str(value)) for key, value in finding.document().items()}
    return found | {"message": ""} if finding.check == "lock" else found


def _cluster(stack: Stack) -> dict[str, Any]:
    cluster = stack.cluster
    found: dict[str, Any] = {"provider": cluster.provider.value}
    if cluster.is_ours:
        found |= {"region": cluster.region, "zones": len(cluster.zones)}
    return found


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "machine": pool.machine.name,
        "gpus": pool.gpus_per_node,
        "capacity": pool.capacity.value,
        "minNodes": pool.min_nodes,
        "maxNodes": pool.max_nodes,
        "zones": len(pool.zones),
        "efa": pool.efa,
        "placement": pool.placement.value,
    }
