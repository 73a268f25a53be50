"""Whether two values are the same Kubernetes quantity ("1" and 1000m, "1Gi" and 1073741824)."""

from fractions import Fraction

from muster.model.quantities import parse_signed_quantity


def amount(value: object) -> Fraction | None:
    """The amount of a value, or None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse_signed_quantity(str(value))
    except ValueError:
        return None


def same_amount(one: object, other: object) -> bool:
    first = amount(one)
    return first is not None and first == amount(other)
