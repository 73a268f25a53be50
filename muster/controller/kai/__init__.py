"""KAI gangs with queued capacity: work starts when all of its nodes are ready, or not at all.

    groups -> batches -> pod_groups -> queue_capacity -> decide -> executor

KAI does not know ProvisioningRequests, and marks pods that its quota blocks Unschedulable, so that
autoscalers buy GPUs for work that may not run. Here every pod of a gang is created with a scheduling
gate, which is removed when the queue has room and the capacity is provisioned. Pure but for the executor, the
hooks and the view. How a gang gets its capacity is muster.controller.gangs.
"""
