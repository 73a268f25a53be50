"""What a job of several nodes lacks on a pool whose machines have a network between GPUs of their own.

Responsible for what `muster validate`, `muster check` and the API server warn of. None refuses: the job runs,
slower.
"""

from collections.abc import Mapping

from muster.model import names
from muster.model.machines.machine import FURTHER_NETWORKS
from muster.model.pools import Pool

_CLAIMED = "the NCCL plugin's installer and the jobs' claims of the cards"
_PARTS = "the NCCL plugin's installer, the Network objects and the jobs' annotations and variables"


def missing_on(pool: Pool) -> str:
    """What the pool's nodes lack, whatever the job asks for; empty where nothing is known to be missing."""
    machine = pool.machine
    if not pool.is_gpu:
        return ""
    if machine.fabric is not None:
        if pool.network_profile is not None:
            return (
                f"{machine.fabric} of {machine.name} is half set up: GKE makes networks for its cards, and "
                f"Muster does not bring {_CLAIMED}"
            )
        wanted, given = FURTHER_NETWORKS[machine.fabric], len(pool.networks)
        cards = (
            f"{given} of its {wanted} further network cards have a network, and " if given < wanted else ""
        )
        return f"{machine.fabric} of {machine.name} is not set up: {cards}Muster does not bring {_PARTS}"
    if machine.efa_by_default and not pool.efa:
        return f"the {machine.efa} EFA interfaces of {machine.name} are not attached"
    return ""


def missing_for(pool: Pool, requests: Mapping[str, object]) -> str:
    """What pods with these requests lack there; empty where nothing is known to be missing."""
    if pool.is_gpu and pool.efa and not requests.get(names.EFA_RESOURCE):
        efa = pool.machine.efa
        return (
            f"the pods request no {names.EFA_RESOURCE}; "
            f"one with all {pool.gpus_per_node} GPUs of a node can request {efa}"
        )
    return missing_on(pool)
