"""The gang-admission check: a Workload starts when every node of its whole gang stands, or not at all.

    objects -> demand -> split -> machine -> executor

What a gang needs, which ProvisioningRequests that makes, what to do now, and the hands that do it. Everything
but the executor, the reconcilers and their view of the caches is pure: no clock, no network, no state that is
not in an API object. `setup(manager)` registers the reconcilers, `webhooks(manager)` lists the reviews.
"""

from controller.admission.wiring import setup, webhooks

__all__ = ["setup", "webhooks"]
