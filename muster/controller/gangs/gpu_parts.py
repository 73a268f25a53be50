"""Parts of GPUs, as pods ask KAI for them by annotations."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster.model.names import GPU_FRACTION, GPU_FRACTION_DEVICES, GPU_MEMORY

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


def read_share(notes: Mapping[str, str], gpu_memory: int) -> Share | None:
    """The part of a GPU that annotations ask for; a whole one where the size of the GPU, in MiB, is not
    known. Raises ValueError for what is no part.
    """
    if GPU_FRACTION in notes:
        part = read_number(notes, GPU_FRACTION)
    elif GPU_MEMORY in notes:
        part = read_number(notes, GPU_MEMORY) / gpu_memory if gpu_memory else Fraction(1)
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
