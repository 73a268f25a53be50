"""What the scheduler counts for one pod.

Decides how the demands of containers, sidecars and init steps become one amount a resource. Leaves reading
a pod's fields to whoever holds it, and where it may run to them as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from muster.model.quantities import parse_quantity

Amounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Initial:
    """An init container: a sidecar stays beside all that starts after it."""

    amounts: Amounts
    is_sidecar: bool


def read(limits: Mapping[str, object], requests: Mapping[str, object]) -> Amounts:
    """What a container demands; ValueError for a bad quantity.

    A limit stands in for a missing request, as the API server fills it in.
    """
    return {name: parse_quantity(str(quantity)) for name, quantity in {**limits, **requests}.items()}


def total(
    initials: Iterable[Initial],
    containers: Iterable[Amounts],
    overhead: Amounts,
    *,
    limits: Amounts,
    requests: Amounts,
) -> Amounts:
    """Containers and sidecars together, or the largest init step, plus overhead. `limits`, `requests`: of the
    pod as a whole. Its requests count in place of its containers', its limits where neither has any
    (k8s.io/component-helpers, resource/helpers.go; defaults.go of the API server).
    """
    running: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for each in initials:
        if each.is_sidecar:
            _add(running, each.amounts)
            _raise(peak, running)
        else:
            level = {name: running.get(name, Fraction(0)) + amount for name, amount in each.amounts.items()}
            _raise(peak, level)
    for amounts in containers:
        _add(running, amounts)
    _raise(peak, running)
    found = {**limits, **peak, **requests}
    _add(found, overhead)
    return found


def _add(running: dict[str, Fraction], more: Amounts) -> None:
    for name, amount in more.items():
        running[name] = running.get(name, Fraction(0)) + amount


def _raise(peak: dict[str, Fraction], level: Amounts) -> None:
    for name, amount in level.items():
        peak[name] = max(peak.get(name, Fraction(0)), amount)
