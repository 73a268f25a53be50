"""The outputs of a stack and what each is. Other programs rely on the names and shapes: an output is removed
or changes its shape only when one with a new name replaces it.

A test compares these tables with what the program exports.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster.model.regions import Provider


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
