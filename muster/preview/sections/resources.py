"""The resources that change, those replaced or deleted first. Values are never shown."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import GRAVE, StackDiff
from muster.preview.document import Mark, Section, Span, Table, Text, UntrustedText, join_names
from muster.preview.plan import Resource

_MAX_PLACES: Final = 6


def sections(diff: StackDiff) -> Iterator[Section]:
    found = diff.resources(pending=False)
    grave = tuple(_resource(each) for each in found if each.verb in GRAVE)
    light = tuple(_resource(each) for each in found if each.verb not in GRAVE)
    pending = tuple(_resource(each) for each in diff.resources(pending=True))
    if grave:
        marks = (Mark.GONE,) * len(grave)
        yield Section("Resources replaced or deleted", 95, (Table(_RESOURCE, grave, marks=marks),))
    if light:
        yield Section("Resources created or updated", 30, (Table(_RESOURCE, light),))
    if pending:
        title = "Resources that change without this pull request"
        yield Section(title, 20, (Table(_RESOURCE, pending),))


_RESOURCE: Final = ("Change", "Type", "Name", "What")


def _resource(resource: Resource) -> tuple[Text, ...]:
    return (
        (resource.verb,),
        (UntrustedText(resource.type),),
        (UntrustedText(resource.name),),
        _what(resource),
    )


def _what(resource: Resource) -> Text:
    """Objects and the paths of fields, never values."""
    spans: list[Span] = []
    if resource.replaced_for:
        spans += ["because of ", *join_names(resource.replaced_for, most=_MAX_PLACES), "; "]
    if resource.objects:
        for each in resource.objects[:_MAX_PLACES]:
            spans += [UntrustedText(each.name or each.key), f" {each.verb}"]
            spans += [": ", *join_names(each.places, most=_MAX_PLACES), "; "] if each.places else ["; "]
        if len(resource.objects) > _MAX_PLACES:
            spans.append(f"and {len(resource.objects) - _MAX_PLACES} more objects; ")
    elif resource.fields and not resource.replaced_for:
        spans += [*join_names(resource.fields, most=_MAX_PLACES), "; "]
    if spans and isinstance(spans[-1], str):
        spans[-1] = spans[-1].removesuffix("; ")
    return tuple(span for span in spans if span != "")
