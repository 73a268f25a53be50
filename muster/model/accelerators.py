"""The GPUs, TPUs and Neuron devices that pools can have, one row each in accelerators.toml.

Everything that Muster knows of an accelerator is in its row: a key that is forgotten is a TypeError when they
are first read.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.regions import LazyTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The keys of a row, which accelerators.toml explains. `resource`: what Kubernetes counts of it.

    A worker that names no pool gets the accelerator of the lowest rank first. A gang over several pools
    requests its scarcest piece first, because the bookings of all its pieces run at the same time.
    """

    name: str
    memory_mib: int
    rank: int
    resource: str
    short: tuple[str, ...]
    product: str
    mig: Mapping[str, int] = field(hash=False)
    gke_quota: str
    gke_sku: str
    gke_whole: bool

    @property
    def is_tpu(self) -> bool:
        return self.resource == names.TPU_RESOURCE

    @property
    def is_nvidia(self) -> bool:
        return self.resource == names.GPU_RESOURCE


def _rows() -> dict[str, Accelerator]:
    text = (files("muster.model") / "accelerators.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    for row in rows.values():
        row["short"], row["mig"] = tuple(row["short"]), MappingProxyType(row["mig"])
    return {name: Accelerator(name=name, **row) for name, row in rows.items()}


ACCELERATORS: Final[Mapping[str, Accelerator]] = LazyTable(_rows)

_VENDORS: Final = {
    names.GPU_RESOURCE: "nvidia",
    names.AMD_RESOURCE: "amd",
    names.TPU_RESOURCE: "tpu",
    names.NEURON_RESOURCE: "aws",
}


def _short_names() -> dict[str, tuple[str, ...]]:
    meant: dict[str, tuple[str, ...]] = {}
    for entry in ACCELERATORS.values():
        for short in entry.short:
            for name in (short, f"{_VENDORS[entry.resource]}-{short}"):
                if name not in ACCELERATORS:
                    meant[name] = (*meant.get(name, ()), entry.name)
    return meant


SHORT_NAMES: Final[Mapping[str, tuple[str, ...]]] = LazyTable(_short_names)
"""Names that a stack may use too, and the accelerators that each can mean: the machine decides which."""


def accelerators_of(name: str) -> tuple[str, ...]:
    """The accelerators that a stack's word can mean; none for an unknown one."""
    return (name,) if name in ACCELERATORS else SHORT_NAMES.get(name, ())


def vendor_resource(name: str) -> str:
    """The resource of a GPU that no table has, by the vendor that its name begins with; "" for another."""
    vendors = {"nvidia": names.GPU_RESOURCE, "amd": names.AMD_RESOURCE}
    return vendors.get(name.partition("-")[0], "") if "-" in name else ""


def own_accelerator(name: str, memory_mib: int) -> Accelerator:
    """A GPU of a node that its owner describes, with the memory that he writes. One that no table has is
    ranked above those of its vendor with no more memory.
    """
    if name in ACCELERATORS:
        return replace(ACCELERATORS[name], memory_mib=memory_mib)
    resource = vendor_resource(name)
    smaller = [
        entry.rank
        for entry in ACCELERATORS.values()
        if entry.resource == resource and entry.memory_mib <= memory_mib
    ]
    return Accelerator(
        name=name,
        memory_mib=memory_mib,
        rank=max(smaller, default=0) + 5,
        resource=resource,
        short=(),
        product="",
        mig=MappingProxyType({}),
        gke_quota="",
        gke_sku="",
        gke_whole=False,
    )
