"""A label selector, as Kubernetes spells it (meta/v1 LabelSelector)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.model.keys import declared


class SelectorOperator(StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Only In and NotIn have `values`."""

    key: str = declared("The label.", example="team")
    operator: SelectorOperator = declared("How it is compared.")
    values: tuple[str, ...] = declared("The values, for In and NotIn.", (), example=["vision", "speech"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Both parts have to hold."""

    match_labels: Mapping[str, str] = declared("Labels with their values.", {}, example={"team": "vision"})
    match_expressions: tuple[Expression, ...] = declared(
        "Expressions that all have to hold.",
        (),
        example=[{"key": "team", "operator": "In", "values": ["vision", "speech"]}],
    )
