"""What all gangs share, for either scheduler.

    demand -> split -> attempt -> assembly -> requests

The pods' demands, the ProvisioningRequests that they make, the state of one attempt in the API, the next
step, and the writes. `muster.controller.kueue` and `muster.controller.kai` build on it and do not know each
other.
"""
