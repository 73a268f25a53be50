"""Reads flavors: a pool's `kueue:` section, and flavors and topologies of `muster:kueue`."""

from types import MappingProxyType

from muster.config import bounds
from muster.model.kueue import (
    Effect,
    Flavor,
    Operator,
    PodSetMerge,
    PoolOptions,
    Provisioning,
    Taint,
    Toleration,
)
from muster.model.kueue.checks import RETRIES
from muster.model.section import Section


def parse_pool_kueue(section: Section) -> PoolOptions:
    """The `kueue:` section of a pool."""
    options = PoolOptions(
        flavor=section.text("flavor"),
        exact=section.flag("exact", False),
        node_labels=MappingProxyType(section.texts("nodeLabels")),
        node_taints=section.list("nodeTaints", _taint),
        tolerations=section.list("tolerations", _toleration),
        topology=section.text("topology"),
        provisioning=_provisioning(section.section("provisioning")),
    )
    section.close()
    return options


def parse_flavor(section: Section, name: str) -> Flavor:
    """A flavor without a pool."""
    flavor = Flavor(
        name=name,
        node_labels=MappingProxyType(section.texts("nodeLabels")),
        node_taints=section.list("nodeTaints", _taint),
        tolerations=section.list("tolerations", _toleration),
        topology=section.text("topology"),
    )
    section.close()
    return flavor


def _provisioning(section: Section) -> Provisioning:
    retries = section.integer("retries", RETRIES, **bounds.RETRIES)
    merge = section.text("podSetMergePolicy")
    if merge is not None and merge not in list(PodSetMerge):
        allowed = " or ".join(PodSetMerge)
        section.note("podSetMergePolicy", f"{merge!r} is unknown.", f"write {allowed}, or leave it out.")
        merge = None
    selector = MappingProxyType(section.texts("nodeSelector")) if section.has("nodeSelector") else None
    found = Provisioning(
        check=section.text("check"),
        config=section.text("config"),
        retries=RETRIES if retries is None else retries,
        merge=None if merge is None else PodSetMerge(merge),
        node_selector=selector,
    )
    section.close()
    return found


def _taint(section: Section) -> Taint | None:
    key, effect = section.text("key", required=True), section.choice("effect", Effect)
    value = section.text("value") or ""
    section.close()
    return None if key is None or effect is None else Taint(key=key, effect=effect, value=value)


def _toleration(section: Section) -> Toleration:
    has_effect, has_seconds = section.has("effect"), section.has("seconds")
    seconds = section.integer("seconds", 0, **bounds.ANY) if has_seconds else None
    toleration = Toleration(
        key=section.text("key") or "",
        operator=section.choice("operator", Operator, Operator.EQUAL) or Operator.EQUAL,
        value=section.text("value") or "",
        effect=section.choice("effect", Effect) if has_effect else None,
        seconds=seconds,
    )
    section.close()
    return toleration
