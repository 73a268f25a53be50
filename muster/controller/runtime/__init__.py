"""Caches, queues, a leader and servers: what a controller needs and what every controller needs alike.

How to write a reconciler:

    from muster.controller.kube.resource import Key, Object, Partial, Resource
    from muster.controller.runtime.controller import RequeueAfter, Result
    from muster.controller.runtime.events import Reference
    from muster.controller.runtime.manager import Manager

    class WorkloadSpec(Partial, frozen=True):          # only the fields you read; camelCase on the wire
        queue_name: str = ""

    class Workload(Object, frozen=True):               # Object brings `metadata` and `.key`
        spec: WorkloadSpec = WorkloadSpec()

    WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", namespaced=True, type=Workload,
                        annotation_prefixes=("muster.dev/",))

    def register(manager: Manager) -> None:
        workloads = manager.informer(WORKLOAD, indexes={"queue": lambda w: [w.spec.queue_name]})
        requests = manager.informer(REQUEST)

        async def reconcile(key: Key) -> Result:
            workload = workloads.get(key)              # from the cache; None: it is gone, nothing to do
            if workload is None:
                return None
            others = workloads.store.by_index("queue", workload.spec.queue_name)
            await manager.client.apply(WORKLOAD, key, body, subresource="status", force=True)
            manager.events.event(Reference.to(WORKLOAD, workload), "Normal",
                                 reason="Requested", action="Provision", note="asked for 2 nodes")
            return RequeueAfter(30.0)                  # or None: only when something changes

        manager.controller("workload", reconcile, workers=8, about=workloads) \\
            .watches(workloads, lambda w: [w.key]) \\
            .watches(requests, lambda r: [Key(r.metadata.namespace, owner_of(r))])

What holds:
- `reconcile` is never run twice at a time for one key, and runs on the leader only. At the start of leading
  every cached object is enqueued once; deletions that no process saw leave no key behind, so let owner
  references do the clean-up.
- Any exception costs this key its backoff (0.1 s doubling to 5 min; at least the server's Retry-After).
  `Conflict` is one of them and is not logged as an error. Events cut a backoff short, but never the server's
  Retry-After (of which a minute is believed), and not below 5 s after the fifth failure in a row.
- `RequeueAfter` must be returned each time: an event that comes earlier forgets it.
- `manager.client` asks the lease before every attempt of every write; `manager.reader` does not, and is for
  reading.
- The cache may lag behind your own writes: put `metadata.resourceVersion` into what you write, or read with
  `manager.client.get` before what cannot be undone. `store.unreadable(key)` says that the present form of
  an object does not decode; `get` then still returns its last form that did.
- Typed objects are frozen; to write, build the dictionary of exactly the fields that you own.
- Whatever is logged while a key is reconciled carries the uid of its object in `about`, and its calls are one
  span of that object's trace.

How to write a webhook: a pure function in `muster.controller.runtime.review` terms, listed as
`Webhook(path="/validate-rayjob", type=RayJob, review=function, on_error="deny")` and given to the
`WebhookServer`. It may read informers' stores, and calls nothing.

Room by room: `store`, `informer` (caches) · `queue`, `controller` (work) · `lease` (leader) · `manager`,
`removal` (the process and its end) · `review`, `webhook_server`, `connections`, `authority`, `certificates`
(admission) · `events`, `health`, `metrics`, `logs`, `spans`, `traces`, `otlp` (observability) · `clock`.
"""
