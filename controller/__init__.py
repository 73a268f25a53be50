"""The gang-admission controller: the program inside the cluster that closes the loop between queue,
autoscaler and pods.

Rooms: `kube` speaks to the Kubernetes API, `runtime` turns it into caches, queues and a leader, `admission`
decides. Imports point from admission to runtime to kube and from all of them to `model`, never back.
"""
