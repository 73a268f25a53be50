"""The gang-admission check: a Workload starts when every node of its whole gang stands, or not at all.

    demand -> split -> machine -> reconciler

What a gang needs, which ProvisioningRequests that makes, what to do now, and the hands that do it. All but
the reconcilers is pure: no clock, no network, no state that is not in an API object.
"""
