"""The schema of `muster:departments`: the queue tree."""

from typing import Final

from muster.config import bounds
from muster.config.schema import kai
from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    defined,
    each,
    either,
    flag,
    integer,
    key,
    mapping,
    quantity,
    text,
    words,
)
from muster.config.schema.writer import schema
from muster.model.kueue import CohortOptions, Group, QueueOptions
from muster.model.names import DEFAULT_LOCAL_QUEUE
from muster.model.queues import Bound, Preemption, Queueing, Reclaim, Within
from muster.model.tenancy import BucketRight

_LIMIT: Final = "amounts by pool, `all` or `none`"


def definitions() -> dict[str, Schema]:
    return {
        "amount": _amount(),
        "limit": either(choice(Bound), by_name(either(choice(Bound), defined("amount")))),
        "department": _department(),
        "team": _team(),
        "kaiQueue": kai.queue(),
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


def _allowance(*, quota: str, borrow: str) -> dict[str, Schema]:
    """The keys that teams and departments share, with the defaults of `quota` and `borrow`."""
    return {
        "quota": key(
            "What is guaranteed, by pool: GPUs of a GPU pool, CPUs of a CPU pool, or unlimited for no bound.",
            by_name(either(defined("amount"), choice(("unlimited",)))),
            otherwise=quota,
            example={"l4": 4, "cpu": 16},
        ),
        "borrow": key(
            f"The most it may borrow of unused quota: {_LIMIT}.",
            defined("limit"),
            otherwise=borrow,
            example={"l4": 2},
        ),
        "lend": key(
            f"The most it lends of its own quota: {_LIMIT}.",
            defined("limit"),
            otherwise="all",
            example={"l4": 2},
        ),
        "weight": key("Its share of free capacity.", integer(**bounds.WEIGHT), otherwise="1", example=2),
    }


def _department() -> Schema:
    return mapping(
        {
            **_allowance(quota="nothing of its own", borrow="as much as its teams may"),
            "departments": key(
                "Departments below this one, by name.",
                by_name(defined("department")),
                example={"vision": {"teams": {"ocr": {"quota": {"l4": 2}}}}},
            ),
            "teams": key(
                "Its teams, by name.", by_name(defined("team")), example={"vision": {"quota": {"l4": 4}}}
            ),
            "kai": key("Its Queue in KAI's own terms.", defined("kaiQueue")),
            "kueue": key("Its Cohort in Kueue's own terms.", schema(CohortOptions)),
        }
    )


def _team() -> Schema:
    return mapping(
        {
            **_allowance(
                quota="no GPUs, and its share by weight of the CPU pools", borrow="no GPUs, and any free CPU"
            ),
            "namespace": key("The namespace of its work.", text(), otherwise="its name", example="vision"),
            "namespaces": key(
                "Several namespaces of its work, in place of `namespace`, with one queue.",
                words(),
                otherwise="one",
                example=["vision", "vision-ci"],
            ),
            "queue": key(
                "Another team of its department, whose queue and quota its work uses in place of its own.",
                text(),
                otherwise="its own queue",
                example="vision",
            ),
            "priorities": key(
                "The priorities that it may use.", words(), otherwise="all", example=["prod", "dev"]
            ),
            "localQueue": key(
                "The name of its LocalQueue.", text(), default=DEFAULT_LOCAL_QUEUE, example="gpus"
            ),
            "preemption": key("Which running work it may preempt.", _preemption()),
            "queueing": key(
                "Whether a job that fits may start before an older one that does not.",
                choice(Queueing),
                default=Queueing.BEST_EFFORT.value,
            ),
            "kai": key("Its Queue in KAI's own terms.", defined("kaiQueue")),
            "kueue": key("Its ClusterQueue in Kueue's own terms.", schema(QueueOptions)),
            **_access(),
        }
    )


def _preemption() -> Schema:
    known = Preemption()
    return mapping(
        {
            "within": key("Work of the same team.", choice(Within), default=known.within.value),
            "reclaim": key(
                "Work of other teams that borrows its quota.", choice(Reclaim), default=known.reclaim.value
            ),
        }
    )


def _access() -> dict[str, Schema]:
    return {
        "members": key(
            "Who works in its namespace: groups of the identity provider, `user:NAME`, or ARNs on EKS.",
            words(),
            otherwise="none",
            example=["vision@example.com", "user:ann@example.com"],
        ),
        "identity": key(
            "An existing cloud identity for its pods: address of a service account, or ARN of a role.",
            text(),
            otherwise="none, or one that is made for its buckets",
            example="vision@my-project.iam.gserviceaccount.com",
        ),
        "buckets": key(
            "Bucket: what its pods may do with its objects.",
            by_name(choice(BucketRight)),
            otherwise="none",
            example={"vision-checkpoints": "write"},
        ),
        "serviceAccounts": key(
            "ServiceAccounts that its pods may run as besides `default`: name and existing cloud identity, "
            "or nothing.",
            by_name({"type": ["string", "null"], "minLength": 1}),
            otherwise="none",
            example={"trainer": "trainer@my-project.iam.gserviceaccount.com"},
        ),
        "pullSecrets": key(
            "Secrets by which its pods pull images.", words(), otherwise="none", example=["registry"]
        ),
        "volumes": key(
            "Volumes of its namespaces, by name.",
            by_name(_volume()),
            otherwise="none",
            example={"data": {"size": "1Ti", "storageClass": "files"}},
        ),
        "defaultPriority": key("The priority of work that names none.", text(), example="dev"),
    }


def _volume() -> Schema:
    return mapping(
        {
            "size": key("Its size, such as 1Ti.", text(), example="1Ti"),
            "storageClass": key(
                "Its storage class.", text(), otherwise="that of the cluster", example="filestore"
            ),
            "volume": key("An existing PersistentVolume that it binds.", text(), example="datasets"),
            "shared": key(
                "Whether several nodes mount it at once, which disks do not allow.",
                flag(),
                default=True,
            ),
            "namespace": key(
                "Which of the team's namespaces it is in; required where `namespaces` has several.",
                text(),
                otherwise="the only one",
                example="vision",
            ),
        },
        required=("size",),
    )
