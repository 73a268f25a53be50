"""The queue of a job that names none.

Chosen from the job itself: the only queue of the namespace, the queue of the pool that the job names, the
only queue whose nodes have the GPUs that its pods request, or Kueue's default one. With several candidates
none is chosen. A queue belongs to a pool only with KAI and a shard for each pool.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from muster.model import names
from muster.model.quantities import parse_quantity
from muster.model.queuetree import Queue, Space

Json = dict[str, Any]
# How a pod requests a part of a GPU from KAI: it has no nvidia.com/gpu then.
_PARTS: Final = (names.GPU_FRACTION, names.GPU_MEMORY)


def choose(body: Json, templates: Sequence[Json], space: Space) -> Queue | None:
    """`templates` are the job's pod templates. None where it is not clear which."""
    if len(space.queues) == 1:
        return space.queues[0]
    if not any(queue.pool for queue in space.queues):
        return space.queue(names.DEFAULT_LOCAL_QUEUE)  # Any pool's, and of several at a time.
    pools = set(_pools(body, templates))
    if len(pools) == 1:
        return _only([queue for queue in space.queues if queue.pool in pools])
    if pools:
        return None  # A gang lives in one pool.
    gpus = max((requested_gpus(template) for template in templates), default=0)
    fitting = [queue for queue in space.queues if queue.pool and _fits(gpus, queue)]
    return _only(fitting) or space.queue(names.DEFAULT_LOCAL_QUEUE)


def _only(queues: list[Queue]) -> Queue | None:
    return queues[0] if len(queues) == 1 else None


def _fits(gpus: int, queue: Queue) -> bool:
    """Work without a GPU leaves those who have one to others."""
    return queue.gpus >= gpus if gpus else queue.gpus == 0


def _pools(body: Json, templates: Sequence[Json]) -> Iterator[str]:
    said = [mapping(body, "metadata", "labels")]
    said += [mapping(each, "spec", "nodeSelector") for each in templates]
    said += [mapping(each, "metadata", "labels") for each in templates]
    for labels in said:
        if labels.get(names.POOL_LABEL):
            yield str(labels[names.POOL_LABEL])


def requested_gpus(template: Json) -> int:
    """What one pod requests; a part of a GPU counts as one."""
    first = (_count(each, names.DEVICE_RESOURCES) for each in _containers(template, "initContainers"))
    whole = sum(_count(each, names.DEVICE_RESOURCES) for each in _containers(template))
    return max(_part(template), whole, *first)


def _part(template: Json) -> int:
    marks = {**mapping(template, "metadata", "annotations"), **mapping(template, "metadata", "labels")}
    return 1 if any(mark in marks for mark in _PARTS) else 0


def _containers(template: Json, key: str = "containers") -> list[Mapping[str, Any]]:
    found = mapping(template, "spec").get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def requests_device(template: Json, resource: str, *, parts: bool) -> bool:
    """Whether a pod requests this kind of device. `parts`: a part of a GPU counts, as it does with KAI. Kueue
    counts no GPU for it, so a queued pool would get no node for such a pod.
    """
    if parts and resource == names.GPU_RESOURCE and _part(template):
        return True
    containers = (*_containers(template), *_containers(template, "initContainers"))
    return any(_count(each, (resource,)) for each in containers)


def requests_devices(template: Json) -> bool:
    """Whether the policies take a pod for one with devices: by any resource of theirs, or a part of a GPU."""
    containers = (*_containers(template), *_containers(template, "initContainers"))
    named = (
        str(name)
        for each in containers
        for part in ("requests", "limits")
        for name in mapping(each, "resources", part)
    )
    parts = mapping(template, "metadata", "annotations").keys() & set(names.GPU_PARTS)
    return bool(parts) or any(name.startswith(names.DEVICE_PREFIXES) for name in named)


def _count(container: Mapping[str, Any], devices: Iterable[str]) -> int:
    resources = mapping(container, "resources")
    amounts = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    try:
        return sum(ceil(parse_quantity(str(amounts.get(name, 0)))) for name in devices)
    except ValueError:
        return 0  # The API server refuses it.


def mapping(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The value at the path, if it is a mapping."""
    here: Any = value
    for step in path:
        here = here.get(step) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else {}
