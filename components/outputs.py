"""The outputs of a stack and what each is. Other programs rely on the names and shapes: an output is removed
or changes its shape only when one with a new name replaces it.

A test compares these tables with what the program exports.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType, MappingProxyType
from typing import Final

from muster.model.regions import Provider

# Ends the program quietly when the engine interrupts it.
# The engine runs the program in a process group of its own, which Ctrl-C on a terminal does not reach. It
# interrupts the program itself, after Ctrl-C and after a resource could not be made, once everything that
# had begun is over and recorded. A traceback of whatever the program was waiting for would not help the
# user, and a program that does not end is killed after five seconds.

# The exit code that shells report for a process that SIGINT ended.
_INTERRUPTED: Final = 128 + signal.SIGINT
_tidying: Final[list[Callable[[], object]]] = []


def go_quietly() -> None:
    """Exit without output when SIGINT comes, from now on."""
    signal.signal(signal.SIGINT, _go)


def at_the_end(tidy: Callable[[], object]) -> None:
    """Run `tidy` however the program ends, unless it is killed."""
    _tidying.append(tidy)
    atexit.register(tidy)


def _go(number: int, frame: FrameType | None) -> None:
    for tidy in _tidying:
        with suppress(Exception):  # an interrupt may come at any point; run the others in any case
            tidy()
    os._exit(_INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Output:
    """One output, or one field of it."""

    meaning: str
    is_secret: bool = False


Outputs = Mapping[str, Output]

STACK: Final[Outputs] = MappingProxyType(
    {
        "cluster": Output("The cluster; its fields are below."),
        "queueNames": Output(
            "Team → the name of its ClusterQueue or KAI Queue. With KAI and one shard for each pool (several "
            "GPU pools, unless the stack sets it otherwise): team → pool → name."
        ),
        "teams": Output("Team → what its jobs need; its fields are below."),
        "gangs": Output("One sentence: whether a gang in this stack gets all of its nodes or none."),
    }
)
MADE_CLUSTER: Final[Outputs] = MappingProxyType(
    {
        "imageRepository": Output(
            "`host/path` to which `muster image push` pushes the controller's image, without tag or digest."
        )
    }
)
"""Of stacks that make their cluster."""

TEAM: Final[Outputs] = MappingProxyType(
    {
        "namespace": Output("The team's namespace, the first if it has several; `namespaces` then has all."),
        "queues": Output(
            "List of the queues that its jobs may name: `name`, and the `labels` that select it. The first "
            "one is used for a job that names none."
        ),
        "priorityLabel": Output("The label that names a job's priority."),
        "priorities": Output("List of the priorities that the team may use, the highest first."),
        "defaultPriority": Output("The priority of a job that names none; empty if there is no default."),
    }
)
_NAME: Final = Output("The cluster's name.")
_REGION: Final = Output("Its region.")
_COMMAND: Final = Output("The command that writes a context for the cluster into your own kubeconfig.")
CLUSTER: Final[Mapping[Provider, Outputs]] = MappingProxyType(
    {
        Provider.GKE: {
            "name": _NAME,
            "location": _REGION,
            "endpoint": Output("Address of the API server, without scheme."),
            "kubeconfig": Output(
                "A kubeconfig that gets its token from `gke-gcloud-auth-plugin`, so it holds no credential.",
                is_secret=True,
            ),
            "kubeconfigCommand": _COMMAND,
            "nodeServiceAccount": Output("E-mail of the Google service account that nodes run as."),
            "pools": Output("Pool of the stack → name of its node pool."),
        },
        Provider.EKS: {
            "name": _NAME,
            "region": _REGION,
            "version": Output("Its Kubernetes minor version, such as `1.36`."),
            "endpoint": Output("URL of the API server."),
            "kubeconfig": Output(
                "A kubeconfig that gets its token from `aws eks get-token`, so it holds no credential.",
                is_secret=True,
            ),
            "kubeconfigCommand": _COMMAND,
            "keyArn": Output("ARN of the KMS key that encrypts Kubernetes Secrets."),
            "pools": Output("Pool of the stack → names of its node groups, one for each zone."),
        },
        Provider.EXISTING: {
            "name": Output("The name that the stack gives the cluster."),
            "context": Output("The kubeconfig context through which the stack is installed."),
            "kubeconfigCommand": Output("The command that makes it kubectl's current context."),
        },
    }
)
