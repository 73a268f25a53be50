"""What a stack file cannot express or expresses in other words, and what it calls things."""

import re
from dataclasses import dataclass, field
from typing import Final

from muster.validation.identities import is_dns_label

# What a stack file cannot express, or expresses in other words.


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`effect`: what becomes of the field or object. `matters`: something of the cluster is missing from the
    stack or would change; otherwise it means the same.
    """

    object: str
    field: str
    reason: str
    effect: str
    matters: bool = True


@dataclass(slots=True)
class Findings:
    """Collects them while the cluster is read."""

    found: list[Finding] = field(default_factory=list)

    def lost(self, what: str, where: str, reason: str, effect: str) -> None:
        self.found.append(Finding(object=what, field=where, reason=reason, effect=effect))

    def reworded(self, what: str, where: str, reason: str, effect: str) -> None:
        self.found.append(Finding(object=what, field=where, reason=reason, effect=effect, matters=False))


# Names for teams, departments and pools: those of their objects, where a stack takes them.

_FOREIGN: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 63


@dataclass(slots=True)
class NameBook:
    """Names that are taken: teams and departments share one space."""

    taken: set[str] = field(default_factory=set)

    def take(self, name: str, *, suffix: str) -> str:
        """The name itself, or one like it: with the suffix, then with a number."""
        plain = to_label(name)
        candidates = [plain, f"{plain[: _LONGEST - len(suffix) - 1]}-{suffix}"]
        number = 2
        while candidates[0] in self.taken:
            candidates.pop(0)
            if not candidates:
                candidates.append(f"{plain[: _LONGEST - 6]}-{number}")
                number += 1
        self.taken.add(candidates[0])
        return candidates[0]


def to_label(name: str) -> str:
    """The name as a DNS label, which is how a stack names things."""
    if is_dns_label(name):
        return name
    return _FOREIGN.sub("-", name.lower()).strip("-")[:_LONGEST].strip("-") or "unnamed"
