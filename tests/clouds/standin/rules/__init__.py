"""Documented rules of the clouds that their definitions do not carry.

A rule is a function of one resource's inputs, with its source in its docstring. Rules between resources (a
pool and its cluster, a node group and its launch template) see what stands and are asked when something is
made. tests/clouds/test_rules.py breaks every one of them.
"""

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.values import Inputs

Alone = Callable[[Inputs], Iterator[Refusal]]
Among = Callable[[Inputs, Callable[[str, Any], Inputs | None]], Iterator[Refusal]]
"""The second argument finds the inputs of what stands: (resource type, id or name) -> inputs."""

_ALONE: Final[dict[str, dict[str, Alone]]] = defaultdict(dict)
_AMONG: Final[dict[str, dict[str, Among]]] = defaultdict(dict)


def alone(token: str) -> Callable[[Alone], Alone]:
    """A rule over the inputs of one resource of this type."""

    def enter(rule: Alone) -> Alone:
        _ALONE[token][rule.__name__] = rule
        return rule

    return enter


def among(token: str) -> Callable[[Among], Among]:
    """A rule over a resource of this type and what stands."""

    def enter(rule: Among) -> Among:
        _AMONG[token][rule.__name__] = rule
        return rule

    return enter


def rules_of(token: str) -> Mapping[str, Alone]:
    return _ALONE[token]


def rules_among(token: str) -> Mapping[str, Among]:
    return _AMONG[token]


def load() -> None:
    """Enters the rules of all clouds."""
    for module in (
        "gke",
        "gke_pools",
        "google_network",
        "eks",
        "node_groups",
        "aws_network",
        "aws_policies",
        "events",
    ):
        importlib.import_module(f"{__name__}.{module}")


def every() -> dict[str, Alone | Among]:
    """All rules by name."""
    both: tuple[Mapping[str, Mapping[str, Alone | Among]], ...] = (_ALONE, _AMONG)
    return {name: rule for group in both for rules in group.values() for name, rule in rules.items()}


load()
