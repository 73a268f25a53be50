"""Reads `muster:kueue`."""

from types import MappingProxyType

from muster.config.kueue.flavors import parse_flavor
from muster.config.kueue.requests import parse_request_config
from muster.model.kueue import AdmissionCheck, KueueOptions, Parameters, Strategy, Topology, UsageSharing
from muster.model.section import Section, describe_value

_MULTI_KUEUE = "multiKueue"


def parse_kueue(section: Section) -> KueueOptions:
    """The `muster:kueue` section."""
    topologies = section.section("topologies")
    found = [Topology(name=name, levels=topologies.words(name)) for name, _ in topologies.items()]
    options = KueueOptions(
        install=section.flag("install", KueueOptions().install),
        topologies=tuple(sorted(found, key=lambda each: each.name)),
        flavors=tuple(sorted(section.each("flavors", parse_flavor), key=lambda each: each.name)),
        admission_checks=tuple(sorted(section.each("admissionChecks", _check), key=lambda each: each.name)),
        request_configs=tuple(
            sorted(
                section.each("provisioningRequestConfigs", parse_request_config), key=lambda each: each.name
            )
        ),
        strategies=_strategies(section.section("fairSharing")),
        usage_sharing=_usage(section),
        exclude_resources=section.words("excludeResourcePrefixes"),
        device_classes=section.texts("deviceClasses"),
    )
    if section.has(_MULTI_KUEUE):
        section.get(_MULTI_KUEUE)
        fix = "remove it; a stack is one cluster, and its queues are for work that runs there."
        section.note(_MULTI_KUEUE, "is not supported: Muster does not send work to other clusters.", fix)
    section.close()
    return options


def _check(section: Section, name: str) -> AdmissionCheck | None:
    controller = section.text("controllerName", required=True)
    parameters = _parameters(section.section("parameters")) if section.has("parameters") else None
    section.get("parameters")
    section.close()
    if controller is None:
        return None
    return AdmissionCheck(name=name, controller_name=controller, parameters=parameters)


def _parameters(section: Section) -> Parameters | None:
    group, kind = section.text("apiGroup", required=True), section.text("kind", required=True)
    name = section.text("name", required=True)
    section.close()
    if group is None or kind is None or name is None:
        return None
    return Parameters(api_group=group, kind=kind, name=name)


def _strategies(section: Section) -> tuple[Strategy, ...]:
    """Kueue accepts one of the two, or both in this order."""
    words = section.words("preemptionStrategies")
    section.close()
    known = tuple(Strategy)
    legal = (known, *((each,) for each in known))
    if words and words not in legal:
        fix = f"write [{', '.join(known)}] or one of the two."
        section.note("preemptionStrategies", f"is [{', '.join(words)}], which Kueue does not support.", fix)
        return known
    return tuple(Strategy(word) for word in words) or known


def _usage(above: Section) -> UsageSharing | None:
    if not above.has("admissionFairSharing"):
        return None
    section, known = above.section("admissionFairSharing"), UsageSharing()
    found = UsageSharing(
        half_life=section.duration("usageHalfLifeTime", known.half_life),
        sampling=section.duration("usageSamplingInterval", known.sampling),
        weights=MappingProxyType(_weights(section.section("resourceWeights"))),
    )
    section.close()
    return found


def _weights(section: Section) -> dict[str, int]:
    found = {}
    for name, value in section.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
            found[name] = round(value * 1000)
        else:
            section.note(
                name, f"must be a weight, is {describe_value(value)}.", "write a number from 0, such as 0.5."
            )
    return found
