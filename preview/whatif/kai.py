"""What can be told of a stack whose scheduler is KAI.

KAI's scheduler is not among the programs that can be built here, so nothing is decided: what is told is who
holds more than the new quota, which is arithmetic over the snapshot, and what would need a decision is named.
"""

from typing import Final

from model.stack import Stack
from preview.changes import compare
from preview.live import over
from preview.parts import Items, Name, Report, Section, StackReport, Text
from preview.snapshot import Snapshot

_VERDICT: Final = (
    "KAI schedules here, and its scheduler cannot be run here: nothing below is a decision of KAI's."
)
_UNTOLD: Final = (
    "Which waiting gang starts, and when: KAI divides what is free by weight and by what queues have used.",
    "Whom it preempts, reclaims from or moves: that depends on where pods lie.",
    "Whether a gang fits its nodes: KAI packs shares of GPUs and looks at nodes, not only at quota.",
)


def report(name: str, base: Stack, head: Stack, snapshot: Snapshot) -> Report:
    """Queues that hold more than their new quota, and the questions that stay open."""
    found: list[Text] = [
        (
            Name(each.team),
            f" holds {each.used} of ",
            Name(each.pool.name),
            f" and keeps a quota of {each.after}.",
        )
        for each in over(compare(base, head), snapshot)
    ]
    known = Section("Who holds more than the new quota", 2, (Items(tuple(found) or (("Nobody.",),)),))
    untold = Section("What cannot be told without KAI", 1, (Items(tuple((each,) for each in _UNTOLD)),))
    return Report((StackReport(Name(name), ((_VERDICT,),), (known, untold)),))
