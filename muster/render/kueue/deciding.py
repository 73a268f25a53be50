"""Kueue's configuration where it decides and no pod runs: on a temporary control plane, and in the player.

Nothing times out there.
"""

from typing import Final

from muster.model.stack import Stack
from muster.render.kueue.manager import manager_config
from muster.render.manifest import Manifest

_NEVER: Final = "8760h"


def deciding_config(stack: Stack) -> Manifest:
    """The Configuration document without the settings for jobs and pods."""
    config = manager_config(stack)
    config["integrations"] = {"frameworks": ["batch/job"]}
    config["manageJobsWithoutQueueName"] = False
    config.pop("managedJobsNamespaceSelector", None)
    # On by default since 0.19, but no pod ever becomes ready here.
    config["waitForPodsReady"] = {"timeout": _NEVER, "recoveryTimeout": _NEVER, "blockAdmission": False}
    config["clientConnection"] = {"qps": 2000, "burst": 4000}
    # Each reconcile of a ClusterQueue writes the usage found so far into its status. Few workers reconcile it
    # less often and write less: 1,000 queues caused 6,279 writes with twenty workers and 778 with one.
    concurrency = {**config["controller"]["groupKindConcurrency"], "ClusterQueue.kueue.x-k8s.io": 2}
    config["controller"] = {"groupKindConcurrency": concurrency}
    return config
