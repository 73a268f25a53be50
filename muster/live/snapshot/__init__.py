"""A snapshot of a cluster's queues.

    Snapshot                queues, their usage, and every Workload that has not finished; of KAI: pod groups
                            and nodes
    fetch_snapshot(api)     reads one from a cluster, and writes nothing
    load_snapshot(path)     reads one from a file
    format_snapshot(found)  the file's text

A snapshot only holds what decisions about queues depend on: no environment, command, volume, image or
annotation of a pod, and no message of a condition. What is not read cannot leak.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.errors import ExitCode, MusterError
from muster.kubernetes.errors import ApiError
from muster.live.fields import MisfitError, from_json, to_json
from muster.live.snapshot import kai, kueue
from muster.live.snapshot.workloads import (
    Condition,
    Expression,
    GroupPod,
    Job,
    LocalQueue,
    Node,
    PodGroup,
    PodSet,
    Queue,
    State,
    SubGroup,
    Taint,
    Term,
    Toleration,
    Usage,
    Workload,
)
from muster.model import names
from muster.model.stack import Scheduler
from muster.printable import sanitize_line
from muster.whole_file import read_at_most

if TYPE_CHECKING:
    # It reads kubeconfigs, for which the recorder's image has no YAML.
    from muster.kubernetes.client import Client

__all__ = [
    "Condition",
    "Expression",
    "GroupPod",
    "Job",
    "LocalQueue",
    "Node",
    "PodGroup",
    "PodSet",
    "Queue",
    "Snapshot",
    "SnapshotError",
    "State",
    "SubGroup",
    "Taint",
    "Term",
    "Toleration",
    "Usage",
    "Workload",
    "fetch_snapshot",
    "format_snapshot",
    "load_snapshot",
    "parse_snapshot",
]

# The queues of one cluster, and their work, at one point in time.


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything is sorted by name. KAI has neither LocalQueues nor Workloads.

    `pod_groups` and `nodes`: of KAI; None where the reader had no right to list them.
    """

    taken: datetime
    scheduler: Scheduler
    queues: tuple[Queue, ...]
    local_queues: tuple[LocalQueue, ...] = ()
    workloads: tuple[Workload, ...] = ()
    pod_groups: tuple[PodGroup, ...] | None = None
    nodes: tuple[Node, ...] | None = None

    @property
    def lacks_work(self) -> bool:
        """Whether what waits and runs is unknown: the reader had no right to list it."""
        return not self.scheduler.traits.admits_jobs and None in (self.pod_groups, self.nodes)

    def used(self, queue: str, flavor: str, resource: str) -> int:
        """The usage of a queue; 0 where the queue does not exist."""
        found = next((each for each in self.queues if each.name == queue), None)
        usage = () if found is None else found.usage
        return sum(each.amount for each in usage if (each.flavor, each.resource) == (flavor, resource))


# A snapshot as JSON, as `muster snapshot` writes it.
# Unlike an object of a cluster, a file is the user's input: a field of an unexpected type is an error that
# names it.

_VERSION: Final = 1
# Of 10,000 jobs it is about 30 MB.
_MAX_BYTES: Final = 512 * 1024 * 1024
_HOW: Final = "record it again with `muster snapshot --kubeconfig FILE > SNAPSHOT`."


class SnapshotError(MusterError):
    """A file that is not a snapshot."""


def format_snapshot(snapshot: Snapshot) -> str:
    """The text of the file. Equal snapshots give equal bytes."""
    return json.dumps({"version": _VERSION, **to_json(snapshot)}, indent=1) + "\n"


def load_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file; SnapshotError when it is not one."""
    try:
        if (content := read_at_most(path, _MAX_BYTES)) is None:
            raise SnapshotError(f"{path}: larger than {_MAX_BYTES // 2**20} MiB.", fix=_HOW)
        text = content.decode()
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}.", fix=_HOW) from None
    except UnicodeDecodeError:
        raise SnapshotError(f"{path}: not UTF-8 text.", fix=_HOW) from None
    return parse_snapshot(text, source=str(path))


def parse_snapshot(text: str, *, source: str) -> Snapshot:
    """The snapshot in a text; SnapshotError when it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError(f"{source}: not JSON, or incomplete.", fix=_HOW) from None
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise SnapshotError(f"{source}: not a snapshot of version {_VERSION}.", fix=_HOW)
    try:
        return from_json(
            Snapshot, {key: value for key, value in found.items() if key != "version"}, "snapshot"
        )
    except MisfitError as error:
        raise SnapshotError(f"{source}: {sanitize_line(str(error))}", fix=_HOW) from None


_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_KAI: Final = f"/apis/{names.KAI_QUEUE_API_VERSION}"
_FORBIDDEN: Final = 403


def fetch_snapshot(api: "Client", *, now: datetime | None = None) -> Snapshot:
    """The queues of the cluster and their work. MusterError when it has no queues or does not respond."""
    taken = (now or datetime.now(UTC)).replace(microsecond=0)
    queues = api.find_all(f"{_KUEUE}/clusterqueues", kueue.to_queue)
    if queues is None:
        return _fetch_kai(api, taken)
    local_queues = api.list_all(f"{_KUEUE}/localqueues", kueue.to_local_queue)
    workloads = api.list_all(f"{_KUEUE}/workloads", kueue.to_workload)
    return Snapshot(
        taken=taken,
        scheduler=Scheduler.KUEUE,
        queues=tuple(sorted(queues, key=lambda each: each.name)),
        local_queues=tuple(sorted(local_queues, key=lambda each: (each.namespace, each.name))),
        workloads=tuple(sorted(workloads, key=lambda each: (each.namespace, each.name))),
    )


def _fetch_kai(api: "Client", taken: datetime) -> Snapshot:
    queues = api.find_all(f"{_KAI}/queues", kai.to_queue)
    if queues is None:
        raise MusterError(
            f"{api.access.server}: the cluster serves neither {names.KUEUE_API_VERSION} nor KAI's queues.",
            fix="use the context of a cluster that Muster manages.",
            exit_code=ExitCode.OUTSIDE,
        )
    groups, nodes = _fetch_work(api)
    return Snapshot(
        taken=taken,
        scheduler=Scheduler.KAI,
        queues=tuple(sorted(queues, key=lambda each: each.name)),
        pod_groups=groups,
        nodes=nodes,
    )


def _fetch_work(api: "Client") -> tuple[tuple[PodGroup, ...] | None, tuple[Node, ...] | None]:
    """The pod groups with their pods, and the nodes. None without the right to list one of the kinds."""
    try:
        groups = api.list_all(f"/apis/{names.KAI_POD_GROUP_API_VERSION}/podgroups", kai.to_group)
        bindings = api.list_all("/apis/scheduling.run.ai/v1alpha2/bindrequests", kai.to_binding)
        pods = api.list_all("/api/v1/pods", kai.to_pod)
        nodes = api.list_all("/api/v1/nodes", kai.to_node)
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return None, None
    placed = kai.with_bindings(pods, dict(bindings))
    return kai.with_pods(groups, placed), kai.with_room(nodes, placed, groups)
