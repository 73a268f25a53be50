"""Pods that count as nothing, as less than nothing, or as more than any number holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import Attack, Way, in_each_template
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed, cluster_spec, template

_TEMPLATES: Final = "muster-templates"
_SIZES: Final = "muster-sizes"
_NOTHING: Final = "pods without number on no quota"
_LOWERED: Final = "GPUs by which the count of another container is lowered"
_LEAST: Final = "a queue counts what a pod requests"
_TWO_BILLION: Final = 2**31 - 1
_WRAPS: Final = 2**16  # Squared it is 0 in 32 bits, which KubeRay and Kueue multiply in.


def _requesting(**fields: Any) -> list[Object]:
    container = template(restart="Never")["spec"]["containers"][0]
    return [{**container, "resources": fields}]


_ZERO: Final = {"cpu": "0", "memory": "0"}
_LITTLE: Final = (
    (
        "a limit of nothing",
        "containers",
        _requesting(limits=_ZERO),
        "containers[].resources.limits{}",
        _NOTHING,
    ),
    (
        "a byte of memory",
        "containers",
        _requesting(requests={"cpu": "1", "memory": "1"}),
        "containers[].resources.requests{}",
        _NOTHING,
    ),
    (
        "a sidecar that requests nothing",
        "initContainers",
        [{"name": "first", "image": "ray", "restartPolicy": "Always", "resources": {"requests": _ZERO}}],
        "initContainers[].resources.requests{}",
        _NOTHING,
    ),
    (
        "pods that request nothing as a whole",
        "resources",
        {"requests": _ZERO},
        "resources.requests{}",
        _NOTHING,
    ),
    (
        "less than no GPU",
        "containers",
        _requesting(requests={"nvidia.com/gpu": "-8"}),
        "containers[].resources.requests{}",
        _LOWERED,
    ),
    ("overhead of less than no GPU", "overhead", {"nvidia.com/gpu": "-8"}, "overhead{}", _LOWERED),
)


def _requests() -> Iterator[Attack]:
    yield from in_each_template(
        "a container that requests nothing",
        *("spec", "containers"),
        value=_requesting(requests=_ZERO),
        gains=_NOTHING,
        policy=_TEMPLATES,
        path="spec.containers[].resources.requests{}",
        words=(_LEAST, "In {at}: container main: request cpu of 10m or more"),
    )
    # One rule judges them, so they take turns. The API server refuses some of them in a Job itself.
    for turn, (name, field, value, path, gains) in enumerate(_LITTLE):
        ray = [
            attack
            for attack in in_each_template(
                name,
                *("spec", field),
                value=value,
                gains=gains,
                policy=_TEMPLATES,
                path=f"spec.{path}",
                words=(_LEAST,),
            )
            if "GroupSpec" in attack.path
        ]
        yield ray[turn % len(ray)]
    for place, make in CLUSTERS.items():
        yield Attack(
            name=f"an autoscaler that requests nothing, in {place}",
            body=make(
                cluster_spec(
                    enableInTreeAutoscaling=True, autoscalerOptions={"resources": {"requests": _ZERO}}
                )
            ),
            gains=_NOTHING,
            policy=_TEMPLATES,
            path=f"{place}.autoscalerOptions.resources.requests{{}}",
            words=(_LEAST,),
            also=("muster-ray-size",),
        )


def _group(**fields: Any) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= fields
    return spec


def _numbers() -> Iterator[Attack]:
    nightly = ("spec", "jobTemplate", "spec", "parallelism")
    for body, path in (
        (works.job(parallelism=_TWO_BILLION, completions=_TWO_BILLION), "Job.spec.parallelism"),
        (
            changed(works.cron_job(), *nightly, value=_TWO_BILLION),
            "CronJob.spec.jobTemplate.spec.parallelism",
        ),
    ):
        yield Attack(
            name=f"a {body['kind']} of two billion pods",
            body=body,
            # The API server lets completions stay as they are.
            ways=(Way.CREATE,) if body["kind"] == "Job" else (),
            gains="a manager that has no memory left, and no lease",
            policy=_SIZES,
            path=path,
            words=("more than the 5000 pods", "spec.parallelism"),
        )
    for place, make in CLUSTERS.items():
        for name, numbers, field in (
            ("two billion workers", {"replicas": _TWO_BILLION}, "replicas"),
            ("65536 by 65536 hosts", {"replicas": _WRAPS, "numOfHosts": _WRAPS}, "numOfHosts"),
        ):
            replicas = numbers["replicas"]
            yield Attack(
                name=f"{name}, in {place}",
                body=make(_group(**numbers, minReplicas=0, maxReplicas=replicas)),
                gains="pods that 32 bits do not count",
                policy=_SIZES,
                path=f"{place}.workerGroupSpecs[].{field}",
                words=("more than the 5000 pods", "replicas and numOfHosts"),
            )
        for name, numbers, field in (
            ("less than no workers", {"replicas": -1, "minReplicas": -9}, "minReplicas"),
            ("workers of no host", {"numOfHosts": 0}, "numOfHosts"),
            ("workers of less than no host", {"numOfHosts": -9}, "numOfHosts"),
        ):
            yield Attack(
                name=f"{name}, in {place}",
                body=make(_group(**numbers)),
                gains="a count of less than what runs",
                policy="muster-ray-size",
                path=f"{place}.workerGroupSpecs[].{field}",
                words=("set 0 <= minReplicas <= replicas <= maxReplicas, and numOfHosts to 1 or more",),
            )


ATTACKS: Final = (*_requests(), *_numbers())
