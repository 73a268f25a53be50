"""The word `gangs` of a pool: how gangs get its nodes.

Responsible for where placeholders can be asked for. What they are is in
docs/decisions/023-gangs-by-placeholders.md.
"""

from collections.abc import Iterator

from muster.model.capacity import Capacity, Gangs
from muster.model.pools import Pool
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation


def gang_word_rules(stack: Stack) -> list[Violation]:
    return [found for pool in stack.pools for found in _word(pool, stack)]


def _word(pool: Pool, stack: Stack) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}.gangs"
    if pool.gangs is None:
        return
    if pool.capacity is Capacity.QUEUED:
        message = "a queued pool gets gangs by ProvisioningRequests."
        yield Violation(path, message, "remove it, or write another `capacity`.")
    elif pool.gangs is Gangs.NONE:
        return
    elif not pool.is_gpu:
        message = "only pools with GPUs get gangs: a pod without one needs a node at once."
        yield Violation(path, message, "remove it.")
    elif pool.slice_nodes > 1:
        message = f"a slice of {pool.slice_nodes} nodes is bought whole, which placeholders do not ask for."
        yield Violation(path, message, "write `capacity: queued`, or `gangs: none`.")
    elif stack.leaves_classes_to_pods:
        message = (
            "with KAI nothing makes pods select the pool's ComputeClass, so GKE makes no nodes for them."
        )
        yield Violation(path, message, "write `gangs: none`, or `muster:scheduler: kueue`.")
    elif stack.gang_admission.mode is not GangMode.MUSTER:
        mode = stack.gang_admission.mode
        message = f"only Muster's controller makes placeholders, and gangAdmission is {mode}."
        yield Violation(path, message, "write `gangs: none`, or `muster:gangAdmission: muster`.")
