"""The kinds of a KAI cluster that a stack renders as well, and where they are listed."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster.model import names


@dataclass(frozen=True, slots=True)
class Kind:
    api_version: str
    plural: str

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}"


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "Queue": Kind(names.KAI_QUEUE_API_VERSION, "queues"),
        "SchedulingShard": Kind(names.KAI_SHARD_API_VERSION, "schedulingshards"),
        "Topology": Kind(names.KAI_TOPOLOGY_API_VERSION, "topologies"),
        "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses"),
    }
)
