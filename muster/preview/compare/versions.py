"""Compares the versions that two stacks install, with the verdict on each step."""

from muster.artifacts.upstream import versions_of
from muster.model.stack import Stack
from muster.model.transitions import Judgement, judge
from muster.preview.compare.differing import differing


def version_changes(base: Stack | None, head: Stack | None) -> tuple[Judgement, ...]:
    """Of components that both sides have. A version that only one side names is not compared: for a cluster
    it is the cloud that chooses the other one.
    """
    if base is None or head is None:
        return ()
    steps = (
        judge(component, before, after)
        for component, before, after in differing(versions_of(base), versions_of(head))
        if before is not None and after is not None
    )
    return tuple(step for step in steps if step is not None)
