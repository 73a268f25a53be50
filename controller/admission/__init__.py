"""The gang-admission check: a Workload starts when every node of its whole gang stands, or not at all.

    podsets -> situation -> machine -> executor

What a Workload's gang is, what is known of it, what to do now, and the hands that do it; how a gang gets its
capacity is controller.gangs. Everything but the executor, the reconcilers and their view of the caches is
pure: no clock, no network, no state that is not in an API object. `setup(manager)` registers the reconcilers,
`webhooks(manager)` lists the reviews.
"""

from controller.admission.wiring import setup, webhooks

__all__ = ["setup", "webhooks"]
