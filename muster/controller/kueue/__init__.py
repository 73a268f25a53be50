"""The gang-admission check: a Workload starts when all nodes of its gang are ready, or not at all.

    podsets -> snapshot -> decide -> executor

The gang of a Workload, a snapshot of it, the decision, and the writes; how a gang gets its capacity is
muster.controller.gangs. Everything but the executor, the hooks and the view is pure: no clock, no network, no
state that is not in an API object. `setup.py` registers the controllers and lists the reviews.
"""
