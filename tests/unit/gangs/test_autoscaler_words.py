"""What an autoscaler says of placeholders without a node, in one word for users."""

from datetime import timedelta

import pytest

from muster.controller.gangs.autoscaler_words import (
    BOOTING,
    BY_SUBJECT,
    CLAIM_EVENTS,
    EVENTS,
    NO_MACHINE,
    OUT_OF_STOCK,
    AutoscalerWords,
    Said,
    Subject,
    subject_of,
)
from muster.controller.gangs.objects import Placeholder
from muster.controller.kube.resource import ObjectMeta
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import START

POD, CLAIM = Subject(kind="Pod", name="muster-a-0"), Subject(kind="NodeClaim", name="pool-x1")
NO_FIT = "incompatible with nodepool"
NOMINATED = "Pod should schedule on: nodeclaim/pool-x1"
FAILED = "the launch of a node failed"


def said(about: Subject, reason: str, message: str, minute: int, *, again: int | None = None) -> Said:
    """`again`: the minute in which it was said last."""
    return Said(
        metadata=ObjectMeta(name=f"{about.name}-{minute}", namespace="default"),
        involved_object=about,
        reason=reason,
        message=message,
        event_time=START + timedelta(minutes=minute),
        last_timestamp=START + timedelta(minutes=again) if again is not None else None,
    )


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], ""),
        ([said(POD, "FailedScheduling", "0/3 nodes are available", 1)], ""),
        ([said(POD, "FailedScheduling", NO_FIT, 1)], NO_MACHINE),
        (
            [said(POD, "FailedScheduling", NO_FIT, 1), said(POD, "NotTriggerScaleUp", "exhausted", 2)],
            OUT_OF_STOCK,
        ),
        ([said(POD, "FailedScheduling", NO_FIT, 1), said(POD, "Nominated", NOMINATED, 2)], BOOTING),
        (
            [said(POD, "FailedScheduling", NO_FIT, 1, again=3), said(POD, "Nominated", NOMINATED, 2)],
            NO_MACHINE,
        ),
        ([said(POD, "Nominated", NOMINATED, 1), said(CLAIM, "LaunchFailed", "", 2)], FAILED),
        ([said(CLAIM, "LaunchFailed", "", 2)], ""),
    ],
    ids=["nothing", "not its", "one", "the gravest", "before it boots", "again", "its claim", "another's"],
)
def test_the_gravest_that_was_said_since_the_node_began_to_boot(events: list[Said], why: str) -> None:
    by_subject = {BY_SUBJECT: subject_of}
    words = AutoscalerWords(
        pods=cached(EVENTS, [each for each in events if each.involved_object == POD], **by_subject),
        claims=cached(CLAIM_EVENTS, [each for each in events if each.involved_object == CLAIM], **by_subject),
    )
    waiting = [Placeholder(metadata=ObjectMeta(name="muster-a-0", namespace="default"))]
    assert words.why(waiting) == why
