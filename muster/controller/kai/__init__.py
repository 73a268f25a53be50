"""KAI gangs with queued capacity: a Ray cluster starts when every node of it stands, or not at all.

    groups -> batches -> pieces -> room -> machine -> executor

KAI knows no ProvisioningRequest and marks work that its quota blocks Unschedulable, so that autoscalers buy
GPUs for work that may not run. Here every pod of a Ray cluster is born behind a scheduling gate; the gate
goes when the queue has room and the capacity stands. Pure but for the executor, the reconciler and its
view. How a gang gets its capacity is muster.controller.gangs.
"""
