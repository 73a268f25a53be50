"""The fields of a stack that only Kueue supports, with their config paths.

    fields_of(stack)  -> config path -> field name, in the order of the file's sections

A stack uses a field when it has another value than its default. Under another scheduler each of them is a
violation, so that none is ignored silently.
"""

from muster.model.kueue import CohortOptions, KueueOptions, PoolOptions, QueueOptions
from muster.model.queues import Allowance, Amount
from muster.model.stack import Stack
from muster.model.violations import at
from muster.validation.explicit_fields import explicit_keys
from muster.validation.paths import department_path, team_path

Options = PoolOptions | CohortOptions | QueueOptions | KueueOptions


def fields_of(stack: Stack) -> dict[str, str]:
    """Config path of every used field -> the field's name."""
    found: dict[str, str] = {}
    for pool in stack.pools:
        found |= _used(at("muster:pools", pool.name, "kueue"), pool.kueue)
        if pool.resources:
            found[at("muster:pools", pool.name, "resources")] = "resources"
        if pool.machine.labels:
            found[at("muster:pools", pool.name, "node", "labels")] = "labels"
    for above, department in stack.walk():
        chain = (*above, department)
        found |= _amounts(department_path(chain), department.allowance)
        found |= _used(at(department_path(chain), "kueue"), department.kueue)
        for team in department.teams:
            found |= _amounts(team_path(chain, team), team.allowance)
            found |= _used(at(team_path(chain, team), "kueue"), team.kueue)
    return found | _used("muster:kueue", stack.kueue)


def _amounts(place: str, allowance: Allowance) -> dict[str, str]:
    """Resources other than CPU, memory and GPUs."""
    shares = {"quota": allowance.quota, "borrow": allowance.borrow.pools, "lend": allowance.lend.pools}
    return {
        at(place, key, pool, "resources"): "resources"
        for key, pools in shares.items()
        for pool, share in pools.items()
        if isinstance(share, Amount) and share.others
    }


def _used(place: str, options: Options) -> dict[str, str]:
    return {at(place, key): key for key in explicit_keys(options, type(options)())}
