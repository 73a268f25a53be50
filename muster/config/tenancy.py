"""Reads `muster:tenancy`, and a team's members and the access of its pods.

Every key has a default, and a stack without any of them is safe. Not responsible for whether a provider
supports a setting (muster/validation).
"""

from collections.abc import Mapping
from types import MappingProxyType

from muster.config.section import Section
from muster.model.tenancy import (
    MOST_KIBIBYTES,
    MOST_OBJECTS,
    Access,
    BucketRight,
    Capability,
    Drain,
    Egress,
    Namespaces,
    PodSecurity,
    Tenancy,
    TenancyMode,
    Volume,
)


def parse_tenancy(root: Section) -> Tenancy:
    """The stack's settings: the mode alone, or a mapping."""
    known = Tenancy()
    if isinstance(root.get("tenancy"), str | bool):
        return Tenancy(mode=root.choice("tenancy", TenancyMode, known.mode) or known.mode)
    section = root.section("tenancy")
    parameters = section.words("parameters") if section.has("parameters") else known.parameters
    tenancy = Tenancy(
        mode=section.choice("mode", TenancyMode, known.mode) or known.mode,
        namespaces=section.choice("namespaces", Namespaces, known.namespaces) or known.namespaces,
        pod_security=section.choice("podSecurity", PodSecurity, known.pod_security) or known.pod_security,
        capabilities=section.choices(
            "capabilities",
            Capability,
            noun="capability that a team may have: others lead out of the container",
        ),
        egress=section.choice("egress", Egress, known.egress) or known.egress,
        reach=section.words("reach"),
        objects=_bounds(section.section("objects"), MOST_OBJECTS),
        sizes=_bounds(section.section("sizes"), MOST_KIBIBYTES),
        parameters=parameters,
        default_priority=section.text("defaultPriority"),
        termination_grace=section.duration("terminationGrace", known.termination_grace),
        network_probe=section.flag("networkProbe", known.network_probe),
        drain=section.choice("drain", Drain, known.drain) or known.drain,
    )
    section.get("parameters")
    section.close()
    return tenancy


def _bounds(section: Section, defaults: Mapping[str, int]) -> Mapping[str, int]:
    counts = {
        word: section.integer(word, most, least=0) for word, most in defaults.items() if section.has(word)
    }
    for word in defaults:
        section.get(word)
    section.close()
    return MappingProxyType({word: count for word, count in counts.items() if count is not None})


def parse_access(section: Section) -> Access:
    """The keys of a team that are not its queue's; the caller reads the rest and closes the section."""
    return Access(
        members=section.words("members"),
        identity=section.text("identity"),
        buckets=_buckets(section.section("buckets")),
        accounts=_accounts(section.section("serviceAccounts")),
        pull_secrets=section.words("pullSecrets"),
        volumes=section.each("volumes", _volume),
        default_priority=section.text("defaultPriority"),
    )


def _buckets(section: Section) -> Mapping[str, BucketRight]:
    rights = {name: section.choice(name, BucketRight) for name, _ in section.items()}
    return MappingProxyType({name: right for name, right in sorted(rights.items()) if right is not None})


def _accounts(section: Section) -> Mapping[str, str | None]:
    return MappingProxyType({name: section.text(name) for name, _ in section.items()})


def _volume(section: Section, name: str) -> Volume | None:
    size = section.text("size", required=True)
    volume = Volume(
        name=name,
        size=size or "",
        storage_class=section.text("storageClass"),
        volume=section.text("volume"),
        shared=section.flag("shared", True),
        namespace=section.text("namespace"),
    )
    section.close()
    return volume if size is not None else None
