"""What the scheduler counts for one pod.

Responsible for combining the requests of containers, sidecars and init containers into one amount for each
resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster.model.names import DEVICES
from muster.model.quantities import MIB, Bytes, Quantity, format_memory, parse_quantity

Amounts = Mapping[str, Fraction]
_IN_BYTES: Final = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Initial:
    """An init container. A sidecar keeps running while the later containers run."""

    amounts: Amounts
    is_sidecar: bool


def read(limits: Mapping[str, object], requests: Mapping[str, object]) -> Amounts:
    """The requests of a container. Raises ValueError for a malformed quantity.

    A limit replaces a missing request, as the API server defaults it.
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
            add(running, each.amounts)
            _raise(peak, running)
        else:
            level = {name: running.get(name, Fraction(0)) + amount for name, amount in each.amounts.items()}
            _raise(peak, level)
    for amounts in containers:
        add(running, amounts)
    _raise(peak, running)
    found = {**limits, **peak, **requests}
    add(found, overhead)
    return found


def describe(amounts: Amounts) -> str:
    """`2 GPUs and memory 4Gi`."""
    return " and ".join(
        f"{figure(name, amount)} {DEVICES[name]}{'' if amount == 1 else 's'}"
        if name in DEVICES
        else f"{name} {figure(name, amount)}"
        for name, amount in sorted(amounts.items(), key=lambda item: (item[0] not in DEVICES, item[0]))
    )


def figure(name: str, amount: Fraction) -> str:
    """The amount as a person would write it for this resource."""
    is_binary = name in _IN_BYTES or name.startswith("hugepages-")
    if is_binary and amount >= MIB:
        return format_memory(Bytes(int(amount)))
    return str(Quantity(amount, is_binary))


def add(total: dict[str, Fraction], more: Amounts, *, times: int = 1) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount * times


def _raise(peak: dict[str, Fraction], level: Amounts) -> None:
    for name, amount in level.items():
        peak[name] = max(peak.get(name, Fraction(0)), amount)
