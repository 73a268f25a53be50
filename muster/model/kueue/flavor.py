"""ResourceFlavor and Topology: which nodes a flavor selects, and how close they are to each other.

Covers the settings of a pool's flavor that do not follow from the pool, and flavors without a pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster.model.kueue.checks import Provisioning


class Effect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Operator(StrEnum):
    """How a toleration matches a taint: by its value, or by any value."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a flavor's nodes: pods that do not tolerate it are not given the flavor."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What Kueue adds to pods that get the flavor. `seconds` belong to NoExecute; without a key it tolerates
    all.
    """

    key: str = ""
    operator: Operator = Operator.EQUAL
    value: str = ""
    effect: Effect | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A ResourceFlavor without a pool: licences, or nodes that Muster does not make."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """A pool's `kueue:` section. Labels, taints and tolerations come on top of the pool's own label and GPU
    taint; in an `exact` flavor they are all that it has. `flavor` is the flavor's name, the pool's when None.
    """

    flavor: str | None = None
    exact: bool = False
    node_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    provisioning: Provisioning = field(default_factory=Provisioning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Node labels from the widest level (a block, a rack) to the narrowest."""

    name: str
    levels: tuple[str, ...]
