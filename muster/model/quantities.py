"""Typed amounts: GPUs, millicores, bytes, and Kubernetes quantities.

Responsible for parsing amounts and for always formatting them in Kubernetes' canonical form: a controller
that reads an object and writes it back canonicalises every quantity in it (`1000m` becomes `1`, `2000`
becomes `2k`), and any other format would be reported as drift for ever.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NewType

# Counts with their noun, as messages and reports write them.


def many(count: int, noun: str, plural: str = "") -> str:
    """`1 team`, `2 teams`. `plural`: of a noun that takes more than an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


# Durations as GangPolicy writes them: `1h30m`, `45s`.

DURATION_PATTERN: Final = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_PARTS = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")
_LONGEST: Final = timedelta(days=366)


def parse_duration(text: str) -> timedelta:
    """`1h30m`, `45s`: hours, minutes, seconds, in this order. ValueError on anything else, and on nothing."""
    match = _PARTS.match(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a duration such as 30m, 1h30m or 45s")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if hours * 3600 + minutes * 60 + seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than {format_duration(_LONGEST)}")
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back to the same whole seconds."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if number]
    return "".join(parts) or "0s"


Gpus = NewType("Gpus", int)
Millicores = NewType("Millicores", int)
Bytes = NewType("Bytes", int)

KIB: Final = 1024
MIB: Final = KIB**2
GIB: Final = KIB**3

# The grammar of k8s.io/apimachinery/pkg/api/resource.Quantity: number, then a suffix or a decimal exponent.
# The length is bounded, because objects of other clients are parsed, too.
_QUANTITY: Final = re.compile(
    r"(?P<number>\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?\Z",
    re.ASCII,
)
QUANTITY_PATTERN: Final = (
    r"^([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$"
)
"""The same, as JSON Schema has it."""
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction:
    """The exact value of a non-negative Kubernetes quantity. Raises ValueError for any other text.

    Cached, because fifteen thousand nodes have the same few dozen amounts and a Fraction is slow to make.
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a Kubernetes quantity such as 4, 500m, 1.5 or 16Gi")
    number, suffix = Fraction(match["number"]), match["suffix"] or ""
    if suffix in _BINARY:
        return number * Fraction(KIB) ** (_BINARY.index(suffix) + 1)
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Fraction(10) ** exponent


def parse_signed_quantity(text: str) -> Fraction:
    """The exact value of a Kubernetes quantity with an optional sign."""
    if text.startswith(("+", "-")):
        return parse_quantity(text[1:]) * (-1 if text[0] == "-" else 1)
    return parse_quantity(text)


@dataclass(frozen=True)
class Quantity:
    """An amount of any resource. `is_binary`: it was written in Ki, Mi, Gi, and is formatted so again."""

    value: Fraction
    is_binary: bool = False

    @staticmethod
    def parse(value: str | int | float) -> "Quantity":
        """What a user writes (`8`, `1.5`, `100Gi`); ValueError for what is finer than a thousandth."""
        amount = parse_quantity(str(value))
        if (amount * 1000).denominator != 1:
            raise ValueError(f"{value!r} is finer than a thousandth")
        return Quantity(amount, str(value).endswith("i"))

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value + other.value, self.is_binary or other.is_binary)

    def __str__(self) -> str:
        """In canonical form."""
        return self._text

    @cached_property
    def _text(self) -> str:
        if self.value.denominator != 1:
            return f"{int(self.value * 1000)}m"
        whole, steps = int(self.value), 0
        while self.is_binary and whole and whole % KIB == 0 and steps < len(_BINARY):
            whole, steps = whole // KIB, steps + 1
        if steps:
            return f"{whole}{_BINARY[steps - 1]}"
        return str(whole) if self.is_binary else format_count(whole)


def parse_cpu(value: str | int | float) -> Millicores:
    """CPU as a user writes it (`4`, `1.5`, `500m`) in millicores; ValueError below a thousandth of a core."""
    millis = parse_quantity(str(value)) * 1000
    if millis.denominator != 1:
        raise ValueError(f"{value!r} is finer than a thousandth of a CPU")
    return Millicores(int(millis))


def parse_memory(value: str | int) -> Bytes:
    """Memory as a user writes it (`16Gi`, `512Mi`) in bytes; ValueError for a part of a byte."""
    size = parse_quantity(str(value))
    if size.denominator != 1:
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return Bytes(int(size))


def format_count(count: int) -> str:
    """A whole number in canonical form: 8 is `8`, 2000 is `2k`."""
    steps = 0
    while count and count % 1000 == 0 and steps < 6:
        count, steps = count // 1000, steps + 1
    return f"{count}{('', 'k', 'M', 'G', 'T', 'P', 'E')[steps]}"


def format_cpu(cpu: Millicores) -> str:
    """Millicores in canonical form: 500 is `500m`, 2000 is `2`."""
    return f"{cpu}m" if cpu % 1000 else format_count(cpu // 1000)


def format_memory(size: Bytes) -> str:
    """Bytes in canonical form, rounded down to whole MiB: plain byte counts have another canonical form."""
    amount, steps = size // MIB, 1
    while amount and amount % KIB == 0 and steps < 5:
        amount, steps = amount // KIB, steps + 1
    return f"{amount}{_BINARY[steps]}" if amount else "0"


def read_count(text: str, *, most_digits: int) -> int | None:
    """A number that any client may have written; None for other text, and for one with more digits than a
    sound one has. (Python reads no number of more than 4,300.)
    """
    return int(text) if text.isdecimal() and len(text) <= most_digits else None
