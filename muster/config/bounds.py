"""The ranges of whole numbers in a stack file: read by the readers and declared by the JSON Schema."""

from typing import Final, TypedDict


class Bounds(TypedDict):
    """The smallest and the greatest number."""

    least: int
    most: int


ANY: Final = Bounds(least=-(2**31), most=2**31 - 1)
POOL_NODES: Final = Bounds(least=1, most=15_000)
PERMANENT_NODES: Final = Bounds(least=0, most=15_000)
GPUS_PER_NODE: Final = Bounds(least=0, most=16)
BOOT_DISK_GIB: Final = Bounds(least=30, most=16_384)
FEWEST_SYSTEM_NODES: Final = Bounds(least=0, most=100)
MOST_SYSTEM_NODES: Final = Bounds(least=1, most=1000)
MAINTENANCE_HOURS: Final = Bounds(least=4, most=24)
LOG_DAYS: Final = Bounds(least=1, most=3653)
WEIGHT: Final = Bounds(least=1, most=1_000_000)
PREFERENCE: Final = Bounds(least=-100, most=100)
SHARE: Final = Bounds(least=0, most=1_000_000)
"""A weight that may be 0: of a LocalQueue, or beyond all quotas."""
RETRIES: Final = Bounds(least=0, most=1000)
