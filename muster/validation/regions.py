"""Regions and zones: that the provider has them, and that the zones are the region's."""

from collections.abc import Iterator, Sequence

from muster.model.nearest import meant
from muster.model.providers import Provider
from muster.model.regions import REGIONS, first_zone, may_be_newer, region_of
from muster.model.violations import Violation, at

_LISTED = {Provider.GKE: "gcloud compute regions list", Provider.EKS: "aws account list-regions"}
_EXAMPLES = {Provider.GKE: "us-central1", Provider.EKS: "us-east-1"}


def region_rules(path: str, region: str, provider: Provider) -> Iterator[Violation]:
    """`path` is the region's. One in the words of known ones may be newer than the table."""
    known = REGIONS[provider]
    if region in known:
        return
    if (inner := region_of(region, provider)) is not None:
        fix = f"write `region: {inner}` and `zones: [{region}]`"
        if provider is Provider.GKE:
            fix += f", or `zone: {region}` in place of it for a zonal cluster"
        yield Violation(path, f"{region!r} is a zone.", f"{fix}.")
        return
    close, _ = meant(region, known, noun="region")
    (other,) = REGIONS.keys() - {provider}
    if region in REGIONS[other]:
        near = f", such as {close}" if close else f", such as {_EXAMPLES[provider]}"
        message = f"{region!r} is a region of {other}, not of {provider}."
        yield Violation(path, message, f"write one of {provider}{near}.")
    elif may_be_newer(region, provider):
        yield from _newer(path, region, provider)
    elif close is not None:
        message = f"{region!r} is not a region of {provider}."
        yield Violation(path, message, f"did you mean {close!r}? `{_LISTED[provider]}` prints them all.")
    elif "-" in region:
        yield from _newer(path, region, provider)
    else:
        message = f"{region!r} is not a region of {provider}."
        fix = f"write its name, such as {_EXAMPLES[provider]}; `{_LISTED[provider]}` prints them all."
        yield Violation(path, message, fix)


def _newer(path: str, region: str, provider: Provider) -> Iterator[Violation]:
    message = f"{region!r} is not among the regions of {provider} that this version of Muster knows."
    fix = f"nothing, if `{_LISTED[provider]}` prints it."
    yield Violation(path, message, fix, level="warning")


def single_zone_rules(path: str, zone: str, region: str) -> Iterator[Violation]:
    """The zone of a zonal GKE cluster; `region` is the one that the stack has besides, or the zone's."""
    inner = region_of(zone, Provider.GKE)
    if inner is None:
        fix = f"write a zone, such as {first_zone(region or _EXAMPLES[Provider.GKE], Provider.GKE)}"
        if zone in REGIONS[Provider.GKE]:
            yield Violation(
                path, f"{zone} is a region.", f"{fix}, or `region: {zone}` for a regional cluster."
            )
        else:
            yield Violation(
                path, f"{zone!r} is not a zone of gke.", f"{fix}; `gcloud compute zones list` prints all."
            )
    elif region == inner:
        yield from region_rules(path, inner, Provider.GKE)
    else:
        yield Violation(
            path, f"{zone} is not in region {region}.", f"remove `region`, or write `region: {inner}`."
        )


def zone_rules(path: str, zones: Sequence[str], region: str, provider: Provider) -> Iterator[Violation]:
    """`path` is that of the list. The zones of a region that is none are not judged."""
    if any(each.level == "error" for each in region_rules(path, region, provider)):
        return
    fix = f"write zones of {region}, such as {first_zone(region, provider)}."
    for index, zone in enumerate(zones):
        if zone in REGIONS[provider] or zone == region:
            yield Violation(at(path, index), f"{zone} is a region.", fix)
        elif region_of(zone, provider) != region:
            yield Violation(at(path, index), f"{zone} is not in region {region}.", fix)
