"""One adoption: the stack file, and everything that is to be known before the first `pulumi up`."""

from dataclasses import dataclass
from typing import Final

from muster.adopt.cluster import LiveCluster
from muster.adopt.compare import Fate, ObjectChange, compare_objects
from muster.adopt.effects import Effects, effects_of
from muster.adopt.findings import Finding
from muster.adopt.stack_file import StackFile, to_stack_file
from muster.adopt.text import format_stack_file
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.model.stack import Stack

_SOURCE: Final = "Pulumi.adopted.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """`text`: the stack file. `mistakes`: what `muster validate` would refuse in it; then nothing is
    compared.
    """

    text: str
    findings: tuple[Finding, ...]
    mistakes: tuple[str, ...]
    objects: tuple[ObjectChange, ...]
    effects: Effects | None

    @property
    def is_exact(self) -> bool:
        """Whether the stack means what the cluster has, and nothing of it is missing."""
        return not (
            self.mistakes
            or any(each.matters for each in self.findings)
            or any(each.fate is Fate.DIFFERENT for each in self.objects)
            or not (self.effects is None or self.effects.is_empty)
        )


def adopt(live: LiveCluster, cluster: dict[str, str]) -> Adoption:
    """The text is read back as `muster validate` does, and what it renders is compared with the cluster.

    A cluster with KAI has pools only where its Queues fit them: Queues of KAI have one figure for all GPUs.
    """
    file = to_stack_file(live, cluster)
    written, stack, mistakes = _examined(file)
    if mistakes and file.tree is None and file.has_pools:
        without = to_stack_file(live, cluster, unfit=mistakes[0])
        second = _examined(without)
        if not second[2]:
            file, (written, stack, mistakes) = without, second
    if stack is None or mistakes:
        return Adoption(text=written, findings=file.findings, mistakes=mistakes, objects=(), effects=None)
    return Adoption(
        text=written,
        findings=file.findings,
        mistakes=(),
        objects=compare_objects(stack, live),
        effects=None if file.tree is None else effects_of(stack, live, file.tree),
    )


def _examined(file: StackFile) -> tuple[str, Stack | None, tuple[str, ...]]:
    """The text, the stack that it is, and the mistakes in it."""
    written = format_stack_file(file)
    stack, found = examine(parse_text(written, source=_SOURCE))
    return written, stack, tuple(str(each) for each in found if each.level == "error")
