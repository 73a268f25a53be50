"""What the API server refuses of an object by code, whatever its definition allows: names and labels,
selectors, and two items of one name in a list that is a map.

Source: https://github.com/kubernetes/kubernetes at v1.37.2, apimachinery/pkg/api/validation/objectmeta.go and
pkg/apis/apps/validation/validation.go, read 2026-11-29
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from muster.check.manifests import Json
from muster.controller.kueue.default_queue import mapping
from muster.model.names import LABEL_VALUE, QUALIFIED_NAME
from muster.model.work import GROUPED, value_at

_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# pkg/apis/batch/validation/validation.go
_LONGEST_CRON_JOB: Final = 52


def validity_faults(body: Json) -> Iterator[str]:
    """Of an object whose fields have the types that they have to have."""
    name = body["metadata"].get("name") or f"{body['metadata'].get('generateName') or ''}x"
    if not body["metadata"].keys() & {"name", "generateName"}:
        yield "metadata.name is missing; write it, or generateName"
    elif not body["apiVersion"].startswith("ray.io/") and not _NAME.fullmatch(name):
        yield f"metadata.name is {name!r}; write at most 253 of a-z, 0-9, - and ."
    elif body["kind"] == "CronJob" and len(name) > _LONGEST_CRON_JOB:
        yield f"metadata.name has {len(name)} characters; write at most {_LONGEST_CRON_JOB}"
    for key, value in mapping(body, "metadata", "labels").items():
        if not QUALIFIED_NAME.match(key) or not LABEL_VALUE.match(value):
            yield f"metadata.labels[{key}] is {value!r}; write at most 63 of A-Z, a-z, 0-9, -, _ and ."
    if body["apiVersion"].startswith("apps/"):
        labels = mapping(body, "spec", "template", "metadata", "labels")
        selected = mapping(body, "spec", "selector", "matchLabels").items()
        for key, value in selected - labels.items():
            yield f"spec.selector.matchLabels[{key}] is {value!r}, which spec.template lacks; write it there"
    for path in (pods.template for kind in GROUPED if kind.kind == body["kind"] for pods in kind.pods):
        names = Counter(value_at(each, path.field) for each in value_at(body, path.groups) if path.field)
        for each in (each for each, count in names.items() if count > 1):
            yield f"{path.groups} has several of {path.field} {each}; give each a {path.field} of its own"
