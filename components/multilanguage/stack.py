"""What a program in another language says of a stack: the sections of a stack file, as properties.

Responsible for the properties that both components share, and for reading them as a stack file is read, with
every violation and its fix. The schema is inferred from these annotations: no forward references.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import pulumi

from muster import config
from muster.model.stack import Stack as Described
from muster.model.violations import Violation

PACKAGE: Final = "muster-components"
_SECTIONS: Final = {
    "cluster": "cluster",
    "pools": "pools",
    "departments": "departments",
    "priorities": "priorities",
    "scheduler": "scheduler",
    "kai": "kai",
    "gang_admission": "gangAdmission",
    "pods_ready": "podsReady",
    "kueue": "kueue",
    "kuberay": "kuberay",
    "gpu_operator": "gpuOperator",
    "tenancy": "tenancy",
    "artifacts": "artifacts",
    "versions": "versions",
    "charts": "charts",
    "image": "image",
    "images": "images",
    "observability": "observability",
    "recording": "recording",
    "budgets": "budgets",
    "ray": "ray",
    "work": "work",
}


class Stack(TypedDict):
    """The sections of a stack file, under the same names and with the same rules."""

    cluster: dict[str, Any]
    """The cluster: provider (gke, eks, existing), name, and what the provider needs."""
    pools: dict[str, Any]
    """Pools of equal nodes by name. A pool that is taken out is deleted with its nodes."""
    departments: dict[str, Any]
    """The queue tree: departments with teams and quotas. A team that is taken out loses its namespace."""
    priorities: NotRequired[dict[str, Any]]
    """Priorities of work by name. A greater number may preempt a smaller one."""
    scheduler: NotRequired[str]
    """Which scheduler queues and admits: kueue (the default) or kai."""
    kai: NotRequired[dict[str, Any]]
    """Settings of the KAI Scheduler."""
    gang_admission: NotRequired[dict[str, Any]]
    """How gangs get their capacity: mode, timeouts, retry."""
    pods_ready: NotRequired[dict[str, Any]]
    """What happens to admitted work whose pods do not become ready."""
    kueue: NotRequired[dict[str, Any]]
    """Kueue's own settings."""
    kuberay: NotRequired[dict[str, Any]]
    """Whether KubeRay is installed. With install false the cluster has to have one that Muster supports."""
    gpu_operator: NotRequired[dict[str, Any]]
    """Whether the GPU Operator is installed. With install false the cluster has to have one that works."""
    tenancy: NotRequired[dict[str, Any]]
    """What teams may do. With mode off nothing keeps a team from using another team's queue."""
    artifacts: NotRequired[str]
    """Where charts and images come from: upstream (the default) or local."""
    versions: NotRequired[dict[str, Any]]
    """Versions of kueue, kai, kuberay and gpuOperator (chart and images); kubernetes is the cluster's."""
    charts: NotRequired[dict[str, Any]]
    """Where charts come from: a mirror or a folder, and their digests."""
    image: NotRequired[str]
    """The controller's image by digest. Another one rolls its pods; no gang loses its capacity."""
    images: NotRequired[dict[str, Any]]
    """Other images: a mirror, or a reference by digest for one of them."""
    observability: NotRequired[dict[str, Any]]
    """Monitors, alerts, dashboard and traces of Muster itself."""
    recording: NotRequired[dict[str, Any]]
    """A recorder of the cluster's jobs, and its volume."""
    budgets: NotRequired[dict[str, Any]]
    """GPU-hours a month by team. At its end nothing more of the team starts until the next month."""
    ray: NotRequired[dict[str, Any]]
    """What Ray clusters have to be."""
    work: NotRequired[list[str]]
    """The kinds of work that teams may submit, such as ray, job and jobset."""


def read_stack(args: Stack) -> Described:
    """The stack that the properties describe. InputPropertiesError lists everything that is wrong with it."""
    given: Mapping[str, Any] = args
    named = {key: given.get(name) for name, key in _SECTIONS.items()}
    values = {key: _plain(value, key) for key, value in named.items() if value is not None}
    try:
        return config.parse(values, source=Path(f"{pulumi.get_stack()} ({PACKAGE})"))
    except config.ConfigError as error:
        raise _refused(error.violations) from None


def _refused(violations: Sequence[Violation]) -> pulumi.InputPropertiesError:
    """The error by which the engine names each property, as the program wrote it."""
    return pulumi.InputPropertiesError(
        "The stack cannot be used.",
        [
            {
                "property_path": f"stack.{each.path.removeprefix('muster:')}",
                "reason": f"{each.message} Fix: {each.fix}",
            }
            for each in violations
        ],
    )


def _plain(value: Any, path: str) -> Any:
    """The value as a stack file has it: the engine's numbers are floating."""
    match value:
        case pulumi.Output():
            message = (
                "comes from another resource or is secret. The stack decides which resources exist, so it "
                "has to be plain and known before any resource is made."
            )
            fix = "write the value itself; kubeconfig and controllerImage may come from a resource."
            raise _refused([Violation(path, message, fix)])
        case dict():
            return {str(key): _plain(each, f"{path}.{key}") for key, each in value.items()}
        case list():
            return [_plain(each, f"{path}[{index}]") for index, each in enumerate(value)]
        case float() if value.is_integer():
            return int(value)
    return value
