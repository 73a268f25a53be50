"""What a stack file cannot express, or expresses in other words."""

from dataclasses import dataclass, field


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
