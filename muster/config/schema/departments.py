"""The schema of `muster:departments`: the queue tree."""

from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    defined,
    each,
    either,
    integer,
    key,
    mapping,
    quantity,
)
from muster.config.schema.writer import schema
from muster.model.kai import QueueSettings
from muster.model.kueue import Group
from muster.model.queues import Bound, Department, Team


def definitions() -> dict[str, Schema]:
    return {
        "amount": _amount(),
        "limit": either(choice(Bound), by_name(either(choice(Bound), defined("amount")))),
        "department": schema(Department),
        "team": schema(Team),
        "kaiQueue": schema(QueueSettings),
        "resourceGroups": key(
            "Quotas as in Kueue's API. Groups that cover CPU, memory or GPUs replace the pools' quotas.",
            each(schema(Group)),
            otherwise="none",
        ),
    }


def _amount() -> Schema:
    """GPUs of a GPU pool, CPUs of a CPU pool, or a mapping. Which of them, only the pool can decide."""
    detailed = mapping(
        {
            "gpus": key("GPUs.", integer(), example=4),
            "cpu": key("CPUs.", quantity(), otherwise="the share that comes with the GPUs", example=32),
            "memory": key(
                "Memory.", quantity(), otherwise="the share that comes with the GPUs", example="128Gi"
            ),
            "resources": key(
                "Other resources by name.", by_name(quantity()), otherwise="none", example={"rdma/hca": 4}
            ),
        }
    )
    # `null` is no amount: an entry of a quota has a value.
    return either(quantity(), {**detailed, "type": "object"})
