"""A set of placeholders is read from the templates that were written for it."""

import msgspec

from muster.controller.gangs.identity import template_name
from muster.controller.gangs.objects import PodTemplate
from muster.controller.gangs.placeholder_sets import ASKED, asked, sets_of


def _template(request: str, number: int, count: int, total: int) -> PodTemplate:
    metadata = {
        "name": template_name(request, number),
        "namespace": "team-a",
        "annotations": {ASKED: asked(count, total)},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return msgspec.convert({"metadata": metadata, "template": {}}, PodTemplate)


def test_a_set_of_eleven_pod_sets_has_them_in_their_order() -> None:
    total = sum(range(1, 12))
    templates = [_template("muster-a", number, number + 1, total) for number in reversed(range(11))]
    (found,) = sets_of(templates, (), node=lambda _: None)
    assert [each.count for each in found.spec.pod_sets] == list(range(1, 12))
