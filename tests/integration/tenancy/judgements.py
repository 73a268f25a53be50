"""The declared judgements: which rights a member has and who judges which field (judgements.yaml), and what
an update of the field does to work that runs (running.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from muster.model.stack import Scheduler
from tests.integration.tenancy.fields import Shared, matches, without_key

_FOLDER: Final = Path(__file__).parent
# What a member may write: its kinds, with the version that is judged.
KINDS: Final = {
    "RayJob": "ray.io/v1",
    "RayCluster": "ray.io/v1",
    "RayService": "ray.io/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ConfigMap": "v1",
    "Secret": "v1",
    "Service": "v1",
}


class Verdict(StrEnum):
    """ALLOWED is harmless, JUDGED by a policy, UNREACHABLE has no effect when a tenant writes it."""

    ALLOWED = "allowed"
    JUDGED = "judged"
    UNREACHABLE = "unreachable"


class Effect(StrEnum):
    """Of an update, on work that runs: see running.yaml."""

    REFUSED = "refused"
    FIXED = "fixed"
    RECOUNTED = "recounted"
    HARMLESS = "harmless"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`by` is the policy that judges the fields, or the reason why none has to."""

    part: str
    field: str
    verdict: Verdict | Effect
    by: str

    @property
    def pattern(self) -> str:
        return f"{self.part}.{self.field}"

    @property
    def key(self) -> bool:
        """Whether it is of one key of a map, beside the judgement of the map."""
        return without_key(self.pattern) != self.pattern

    @property
    def since(self) -> str:
        """The first version of Kubernetes that has it, "" for all that Muster knows."""
        return _since(self.pattern)

    def applies(self, field: str) -> bool:
        return matches(self.pattern, field)


@dataclass(frozen=True, slots=True)
class Right:
    """`to`: members by our role, and by Kubernetes' own roles everyone or ServiceAccounts alone."""

    resource: str
    verb: str
    reason: str
    only: Scheduler | None
    to: str

    @property
    def since(self) -> str:
        """The first version of Kubernetes that has it, "" for all that Muster knows."""
        return _since(self.resource)


@cache
def _read() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((_FOLDER / "judgements.yaml").read_text())
    return found


def newer() -> set[str]:
    """The resources and fields that only some versions of Kubernetes have."""
    return {each for listed in _read()["since"].values() for each in listed}


def _since(what: str) -> str:
    return next((version for version, listed in _read()["since"].items() if what in listed), "")


@cache
def shared() -> Shared:
    return Shared(_read()["shared"])


@cache
def judgements() -> tuple[Judgement, ...]:
    return _listed(_read()["fields"], Verdict)


@cache
def effects() -> tuple[Judgement, ...]:
    return _listed(yaml.safe_load((_FOLDER / "running.yaml").read_text()), Effect)


@cache
def kai_keys() -> tuple[Judgement, ...]:
    """Of `create` and `update`: labels and annotations that KAI reads of what runs in a cluster."""
    return _listed(yaml.safe_load((_FOLDER / "kai_keys.yaml").read_text()), Effect)


def _listed(parts: Mapping[str, Any], kind: type[Verdict] | type[Effect]) -> tuple[Judgement, ...]:
    return tuple(
        Judgement(part, field, kind(verdict), by)
        for part, verdicts in parts.items()
        for verdict, listed in verdicts.items()
        for by, fields in listed.items()
        for field in fields
    )


@cache
def rights() -> tuple[Right, ...]:
    return tuple(_rights())


def _rights() -> Iterator[Right]:
    for entry in _read()["rights"]:
        only = Scheduler(entry["only"]) if "only" in entry else None
        for resource in entry["of"]:
            for verbs, reason in entry["verbs"].items():
                for verb in verbs.split():
                    yield Right(resource, verb, reason, only, entry.get("to", "members"))


def judgements_of(path: str, among: Sequence[Judgement] = ()) -> list[Judgement]:
    """Those of a field, or of one key of a map, by any of its paths."""
    field, listed = shared().name(path), among or judgements()
    exact = [each for each in listed if each.applies(field)]
    return exact or [each for each in listed if each.applies(without_key(field))]
