"""What all gangs share, whichever scheduler admits them.

    demand -> split -> attempt -> assembly -> requests

What a gang's pods need, which ProvisioningRequests that makes, what lies in the API for one attempt, what to
do next, and the hands that do it. `muster.controller.kueue` (Kueue) and `muster.controller.kai` build on it
and know nothing of each other.
"""
