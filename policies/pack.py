"""The pack: every rule, and the stack that they judge."""

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from pulumi.runtime import get_config_env
from pulumi_policy import StackValidationPolicy

from muster import paths
from muster.config import ConfigError, parse
from muster.policies import cost, credentials, eks, gke, protection, quotas, versions
from muster.policies import rule as description
from muster.policies.rule import Described, Rule

RULES: Final[tuple[Rule, ...]] = (
    *description.RULES,
    *quotas.RULES,
    *cost.RULES,
    *versions.RULES,
    *gke.RULES,
    *eks.RULES,
    *credentials.RULES,
    *versions.IMAGE_RULES,
    *protection.RULES,
)


def policies(own: Iterable[Rule] = ()) -> list[StackValidationPolicy]:
    """The policies that the engine runs: ours, then the rules of `own`. They judge the stack that the engine
    names in PULUMI_STACK and PULUMI_CONFIG.
    """
    return [rule.policy(_described) for rule in (*RULES, *own)]


@lru_cache(maxsize=1)
def _described() -> Described:
    """The description that this run was given, or what is wrong with it."""
    name = os.environ.get("PULUMI_STACK", "")
    ours = {key: value for key, value in get_config_env().items() if key.startswith("muster:")}
    if not ours:
        return Described(name)
    try:
        return Described(name, parse(ours, source=paths.stack_file(name)))
    except ConfigError as error:
        return Described(name, broken=tuple(error.violations))
