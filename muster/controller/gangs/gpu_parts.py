"""Parts of GPUs, as pods ask KAI for them by annotations, and how many pods share one.

No autoscaler knows parts, so whole GPUs are counted and asked for, each with what the pods on it need
besides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from muster.model.names import GPU_FRACTION, GPU_FRACTION_DEVICES, GPU_MEMORY, GPU_RESOURCE
from muster.model.pods import Amounts

# As KAI's webhook takes them, and short: a text like 1e30000000 takes minutes to become a number.
_NUMBER: Final = re.compile(r"(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,2})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of each of `devices` GPUs of one node."""

    part: Fraction
    devices: int

    @property
    def gpus(self) -> Fraction:
        return self.part * self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpus:
    """`count` times so many GPUs and what goes with them, for some of the pods each time."""

    count: int
    amounts: Amounts


def shared_gpus(share: Share, pods: Sequence[tuple[int, Amounts]], node: Amounts) -> SharedGpus:
    """Where these pods go: so many on the same GPUs as their parts and a node allow, whichever they are.
    `pods`: how many of each size; `node`: what is known of one node.
    """
    total = sum(count for count, _ in pods)
    names = sorted({name for _, amounts in pods for name in amounts} - {GPU_RESOURCE})
    largest = {
        name: sorted(((amounts.get(name, Fraction(0)), count) for count, amounts in pods), reverse=True)
        for name in names
    }
    bounds = (_held(largest[name], node[name]) for name in names if name in node)
    each = max(1, min(total, int(1 / share.part), *bounds))
    amounts = {name: _sum(largest[name], each) for name in names}
    return SharedGpus(count=ceil(total / each), amounts={**amounts, GPU_RESOURCE: Fraction(share.devices)})


def _held(sizes: Sequence[tuple[Fraction, int]], room: Fraction) -> int:
    """How many fit, the largest first: that many fit whichever they are."""
    held = 0
    for size, count in sizes:
        fitting = min(count, int(room // size)) if size else count
        held += fitting
        room -= fitting * size
        if fitting < count:
            break
    return held


def _sum(sizes: Sequence[tuple[Fraction, int]], most: int) -> Fraction:
    """Of the largest."""
    total = Fraction(0)
    for size, count in sizes:
        total += size * min(count, most)
        most -= min(count, most)
    return total


def asked_memory(notes: Mapping[str, str]) -> Fraction:
    """MiB of each GPU; 0 where annotations name none. Raises ValueError for what is no number."""
    return read_number(notes, GPU_MEMORY) if GPU_MEMORY in notes else Fraction(0)


def read_share(notes: Mapping[str, str], gpu_memory: int) -> Share | None:
    """The part of a GPU that annotations ask for; a whole one where the size of the GPU, in MiB, is not
    known. Raises ValueError for what is no part.
    """
    if GPU_FRACTION in notes:
        part = read_number(notes, GPU_FRACTION)
    elif GPU_MEMORY in notes:
        part = asked_memory(notes) / gpu_memory if gpu_memory else Fraction(1)
    else:
        return None
    devices = int(read_number(notes, GPU_FRACTION_DEVICES)) if GPU_FRACTION_DEVICES in notes else 1
    if not 0 < part <= 1 or devices < 1:
        asked = notes.get(GPU_FRACTION) or f"{notes[GPU_MEMORY]} MiB"
        raise ValueError(
            f"{GPU_FRACTION if GPU_FRACTION in notes else GPU_MEMORY} asks for {asked} of {devices} GPUs; "
            "a part lies between 0 and 1"
        )
    return Share(part=part, devices=devices)


def read_number(notes: Mapping[str, str], key: str) -> Fraction:
    """ValueError for what is none, or no plain one."""
    if not _NUMBER.fullmatch(notes[key]):
        raise ValueError(f"{key}: {notes[key][:40]!r} is not a number")
    return Fraction(notes[key])
