"""Work counts as preemptible exactly where KAI would evict it: the rules of its grouper, one by one."""

from collections.abc import Mapping

import pytest

from muster.controller.kai.labels import is_preemptible
from muster.controller.kai.objects import GatedPod, GatedSpec, PriorityClass, RayCluster
from muster.controller.kube.resource import ObjectMeta

Labels = Mapping[str, str]
FIRM, LOOSE = {"priorityClassName": "build"}, {"priorityClassName": "train"}


def _class(name: str, value: int, *, of_all: bool = False) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=of_all)


CLASSES = {"train": _class("train", 50), "build": _class("build", 100)}


def _found(
    above: Labels,
    pod: Labels | None = None,
    *,
    spec: str = "",
    classes: Mapping[str, PriorityClass] = CLASSES,
) -> bool:
    made = GatedPod(
        metadata=ObjectMeta(name="p", labels=dict(pod or {})), spec=GatedSpec(priority_class_name=spec)
    )
    return is_preemptible(made, RayCluster(metadata=ObjectMeta(name="r", labels=dict(above))), classes)


@pytest.mark.parametrize(
    ("above", "pod", "spec", "expected"),
    [
        (LOOSE, {}, "", True),
        (FIRM, {}, "", False),
        (FIRM, LOOSE, "train", False),
        ({}, FIRM, "train", False),
        ({}, {}, "build", False),
        ({}, {}, "", True),
        # Ray's own label goes first, and only on the Ray object.
        (LOOSE | {"ray.io/priority-class-name": "build"}, {}, "", False),
        (FIRM | {"ray.io/priority-class-name": "train"}, {}, "", True),
        (FIRM, {"ray.io/priority-class-name": "train"}, "", False),
        # What the labels say of preemption itself goes before all; what is no word of KAI's is as none.
        (FIRM | {"kai.scheduler/preemptibility": "preemptible"}, {}, "", True),
        (LOOSE, {"kai.scheduler/preemptibility": "non-preemptible"}, "", False),
        (LOOSE | {"kai.scheduler/preemptibility": "sometimes"}, {}, "", True),
        (FIRM | {"kai.scheduler/preemptibility": "sometimes"}, {}, "", False),
    ],
)
def test_the_labels_of_the_ray_object_go_before_those_of_its_pods(
    above: Labels, pod: Labels, spec: str, expected: bool
) -> None:
    assert _found(above, pod, spec=spec) is expected


def test_a_class_that_does_not_exist_is_train_whatever_the_default_of_all_is() -> None:
    of_all = {**CLASSES, "high": _class("high", 1000, of_all=True)}
    assert _found({"priorityClassName": "nowhere"}, classes=of_all)
    assert _found({}, classes=of_all)
    assert not _found({}, classes={**of_all, "train": _class("train", 100)})


def test_without_train_it_is_the_default_of_all_and_without_one_fifty() -> None:
    assert not _found({}, classes={"high": _class("high", 1000, of_all=True)})
    assert not _found(
        {"ray.io/priority-class-name": "x"}, classes={"high": _class("high", 1000, of_all=True)}
    )
    assert _found({}, classes={})
