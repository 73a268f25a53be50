"""The gang-admission controller: the program inside the cluster that closes the loop between queue,
autoscaler and pods.

Rooms: `kube` talks to the Kubernetes API; `runtime` turns it into caches, queues and a leader; `gangs` is
what a gang is to any scheduler, with the reconcile loop; `kueue` decides with Kueue and has the webhooks;
`kai` decides with KAI. Imports point from these two to gangs to runtime to kube and from all to `model`,
never back.
"""
