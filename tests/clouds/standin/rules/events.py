"""What SQS and EventBridge say beyond their service models."""

import json
import re
from collections.abc import Iterator

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone
from tests.clouds.standin.rules.aws_policies import document
from tests.clouds.standin.rules.trust import statements
from tests.clouds.standin.tables.events import QUEUE_POLICY_TYPE, QUEUE_TYPE, RULE_TYPE
from tests.clouds.standin.values import Inputs, get


@alone(QUEUE_TYPE)
def queues_have_short_names(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html: up to 80
    letters, digits, - and _; messages are kept for 60 seconds to 14 days.
    """
    name, seconds = get(inputs, "name"), get(inputs, "messageRetentionSeconds")
    if isinstance(name, str) and not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name):
        yield Refusal("name", f"{name!r} is no name of a queue")
    if isinstance(seconds, int) and not 60 <= seconds <= 1_209_600:
        yield Refusal("messageRetentionSeconds", f"{seconds} is not from 60 to 1209600")


@alone(QUEUE_POLICY_TYPE)
def queue_policies_name_who(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html: a policy
    of a resource names a Principal in every statement.
    """
    yield from document(inputs, "policy")
    text = get(inputs, "policy")
    try:
        unnamed = [one for one in statements(str(text)) if not one.get("Principal")]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(text, str) and unnamed:
        yield Refusal("policy", "every statement names a Principal")


@alone(RULE_TYPE)
def patterns_are_lists(inputs: Inputs) -> Iterator[Refusal]:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html: "Event pattern is not
    valid": an object whose values are lists or objects.
    """
    text = get(inputs, "eventPattern")
    if not isinstance(text, str):
        return
    try:
        pattern = json.loads(text)
    except ValueError:
        yield Refusal("eventPattern", "is JSON")
        return
    if not isinstance(pattern, dict) or not all(isinstance(each, list | dict) for each in pattern.values()):
        yield Refusal("eventPattern", "is an object of lists")
