"""The figures of a KAI Queue as `kai:` of a team or department has them.

Every figure is written: KAI reads a missing one as 0, and a stack would derive it. A figure that a stack
cannot have is rounded down, which the comparison with the rendered object shows.
"""

from fractions import Fraction
from typing import Any, Final

from muster.live.fields import mapping
from muster.model.kai import UNLIMITED
from muster.model.kai.tree import RESOURCES
from muster.model.quantities import Millicores, format_cpu
from muster.render.manifest import Manifest

_UNLIMITED: Final = -1
_MOST: Final = 10**15


def is_unlimited(figure: float | Fraction) -> bool:
    """Whether KAI reads the figure as no bound."""
    return figure == _UNLIMITED


def to_shares(queue: Manifest) -> dict[str, Any]:
    resources = mapping(queue, "spec", "resources")
    return {key: _share(key, mapping(resources, key)) for key in RESOURCES}


def _share(key: str, said: Any) -> dict[str, Any]:
    figures = {name: _figure(key, _amount(said.get(name))) for name in ("quota", "limit")}
    return {**figures, "overQuotaWeight": max(0, int(_amount(said.get("overQuotaWeight"))))}


def _figure(key: str, amount: Fraction) -> int | float | str:
    """KAI counts GPUs, thousandths of a CPU and millions of bytes."""
    if is_unlimited(amount):
        return UNLIMITED.value
    amount = max(amount, Fraction(0))
    if key == "gpu":
        return int(amount) if amount.denominator == 1 else int(amount * 1000) / 1000
    whole = int(amount)
    if key == "memory":
        return f"{whole}M" if whole else 0
    return whole // 1000 if whole % 1000 == 0 else format_cpu(Millicores(whole))


def _amount(value: object) -> Fraction:
    """The number as it is written: 0.7 is seven tenths."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        return Fraction(0)
    return Fraction(str(value))
