"""The pack: every rule, and the stack that they judge."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import pulumi.runtime
from pulumi_policy import StackValidationPolicy

from model.stack import Stack
from policies import cost, credentials, eks, gke, images, priorities, protection, quotas, versions
from policies.rule import Rule
from stackconfig import ConfigError, parse

ROOT: Final = Path(__file__).resolve().parent.parent
RULES: Final[tuple[Rule, ...]] = (
    *quotas.RULES,
    *priorities.RULES,
    *cost.RULES,
    *versions.RULES,
    *gke.RULES,
    *eks.RULES,
    *credentials.RULES,
    *images.RULES,
    *protection.RULES,
)


def policies() -> list[StackValidationPolicy]:
    """What the engine runs, for the stack that it runs on (environment: PULUMI_STACK, PULUMI_CONFIG)."""
    name = os.environ.get("PULUMI_STACK", "")
    return [rule.policy(stack=_stack, stack_name=name) for rule in RULES]


@lru_cache(maxsize=1)
def _stack() -> Stack | None:
    """The description that this run was given. A broken one was refused by the program already, with its
    lines.
    """
    values = pulumi.runtime.get_config_env()
    ours = {key: value for key, value in values.items() if key.startswith("muster:")}
    try:
        return parse(ours, source=ROOT / "stacks" / f"Pulumi.{os.environ.get('PULUMI_STACK', '')}.yaml")
    except ConfigError:
        return None
