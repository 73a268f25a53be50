"""Lets a program that needs more memory than its container has fail with an error.

The kernel kills a container that exceeds its limit, and the container's log does not say why.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited_memory(bytes: int) -> Iterator[None]:
    """Within the block, an allocation beyond this raises MemoryError. Programs that are started in it have
    as much, each for itself.
    """
    # RLIMIT_AS would count address space as well that is only reserved.
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
