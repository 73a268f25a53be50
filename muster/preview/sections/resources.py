"""Which resources change: what is replaced or deleted first, and never a value."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import GRAVE, Told
from muster.preview.document import Name, Section, Span, Table, Text, names
from muster.preview.plan import Resource

_MOST_PLACES: Final = 6


def sections(told: Told) -> Iterator[Section]:
    found = told.resources(pending=False)
    grave = tuple(_resource(each) for each in found if each.verb in GRAVE)
    light = tuple(_resource(each) for each in found if each.verb not in GRAVE)
    pending = tuple(_resource(each) for each in told.resources(pending=True))
    if grave:
        yield Section("Resources replaced or deleted", 95, (Table(_RESOURCE, grave),))
    if light:
        yield Section("Resources created or updated", 30, (Table(_RESOURCE, light),), is_folded=True)
    if pending:
        title = "Resources that change without this pull request"
        yield Section(title, 20, (Table(_RESOURCE, pending),), is_folded=True)


_RESOURCE: Final = ("", "Type", "Name", "What")


def _resource(resource: Resource) -> tuple[Text, ...]:
    return ((resource.verb,), (Name(resource.type),), (Name(resource.name),), _what(resource))


def _what(resource: Resource) -> Text:
    """Objects and places, never values."""
    spans: list[Span] = []
    if resource.replaced_for:
        spans += ["because of ", *names(resource.replaced_for, most=_MOST_PLACES), "; "]
    if resource.objects:
        for each in resource.objects[:_MOST_PLACES]:
            spans += [Name(each.name or each.key), f" {each.verb}"]
            spans += [": ", *names(each.places, most=_MOST_PLACES), "; "] if each.places else ["; "]
        if len(resource.objects) > _MOST_PLACES:
            spans.append(f"and {len(resource.objects) - _MOST_PLACES} more objects; ")
    elif resource.fields and not resource.replaced_for:
        spans += [*names(resource.fields, most=_MOST_PLACES), "; "]
    if spans and isinstance(spans[-1], str):
        spans[-1] = spans[-1].removesuffix("; ")
    return tuple(span for span in spans if span != "")
