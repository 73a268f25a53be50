"""The stack as Kueue objects, API v1beta2.

    topologies(stack)        Topology of every one that the stack names
    flavors(stack)           ResourceFlavor of every pool, and of every flavor beside them
    priority_classes(stack)  WorkloadPriorityClass of every priority
    admission_check(stack)   AdmissionChecks and, for Kueue's own, their ProvisioningRequestConfigs; empty
                             when nothing is queued, gang admission is off and the stack names no check
    manager_config(stack)    Kueue's Configuration, the document of the chart's controllerManagerConfigYaml
    deciding_config(stack)   the same where no pod runs
    cluster_objects(stack)   Topologies, ResourceFlavors and AdmissionChecks
    cohorts(stack)           Cohort of every department
    team_objects(stack, t)   Namespace, ClusterQueue, LocalQueues of one team
    by_department(stack)     department -> team (or "" for its Cohort) -> objects
    names_by_team(stack)     team -> its ClusterQueue
    queues_of_teams(stack)   team -> its LocalQueues, with what each can hold

Objects are in the order in which they can be applied. The order depends on the stack alone, not on the order
of keys in its file.
"""

from muster.render.kueue.cluster import (
    METRICS_PORT,
    VISIBILITY_PORT,
    WEBHOOK_PORT,
    admission_check,
    cluster_objects,
    deciding_config,
    flavors,
    manager_config,
    topologies,
)
from muster.render.kueue.queues import (
    by_department,
    cohorts,
    names_by_team,
    priority_classes,
    queues_of_teams,
    team_objects,
)

__all__ = [
    "METRICS_PORT",
    "VISIBILITY_PORT",
    "WEBHOOK_PORT",
    "admission_check",
    "by_department",
    "cluster_objects",
    "cohorts",
    "deciding_config",
    "flavors",
    "manager_config",
    "names_by_team",
    "priority_classes",
    "queues_of_teams",
    "team_objects",
    "topologies",
]
