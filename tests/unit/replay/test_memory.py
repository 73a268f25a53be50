"""A program that may not use all of the memory."""

import resource
from pathlib import Path

import pytest

from muster.replay.recording import limited_memory

_MIB = 2**20


def _used() -> int:
    """Bytes that this process has mapped as data."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def test_too_large_an_allocation_is_an_error_until_the_block_ends() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory(_used() + 64 * _MIB), pytest.raises(MemoryError):
        bytearray(512 * _MIB)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
