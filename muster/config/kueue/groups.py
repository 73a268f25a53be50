"""Reads `resourceGroups`, written as in Kueue's API."""

from muster.model.kueue import FlavorQuota, Group, Quota
from muster.model.quantities import Quantity
from muster.model.section import Section, describe_value


def parse_groups(section: Section) -> tuple[Group, ...]:
    return section.list("resourceGroups", _group)


def parse_quantity(section: Section, key: str) -> Quantity | None:
    """An amount such as 8, 1.5 or 100Gi. None when it is absent, or malformed and reported."""
    value = section.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{describe_value(value)} is not a number")
        return Quantity.parse(value)
    except ValueError as error:
        section.note(key, f"must be an amount: {error}.", "write it like 8, 1.5, 500m or 100Gi.")
        return None


def _group(section: Section) -> Group:
    group = Group(
        covered_resources=section.words("coveredResources"), flavors=section.list("flavors", _flavor)
    )
    section.close()
    return group


def _flavor(section: Section) -> FlavorQuota | None:
    name, resources = section.text("name", required=True), section.list("resources", _quota)
    section.close()
    return None if name is None else FlavorQuota(name=name, resources=resources)


def _quota(section: Section) -> Quota | None:
    name, nominal = section.text("name", required=True), parse_quantity(section, "nominalQuota")
    borrowing, lending = parse_quantity(section, "borrowingLimit"), parse_quantity(section, "lendingLimit")
    if not section.has("nominalQuota"):
        section.note("nominalQuota", "is missing.", "write `nominalQuota:` and its value; 0 is allowed.")
    section.close()
    if name is None or nominal is None:
        return None
    return Quota(name=name, nominal=nominal, borrowing=borrowing, lending=lending)
