"""The gang-admission check: a Workload starts when every node of its whole gang stands, or not at all.

    podsets -> snapshot -> decide -> executor

What a Workload's gang is, what is known of it, what to do now, and the hands that do it; how a gang gets its
capacity is muster.controller.gangs. Everything but the executor, the reconcilers and their view of the caches
is pure: no clock, no network, no state that is not in an API object. `setup.py` registers the reconcilers and
lists the reviews.
"""
