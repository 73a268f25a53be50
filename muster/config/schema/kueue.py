"""The schema of `muster:kueue`, and of `kueue:` of pools, departments and teams, named as in Kueue's API."""

from typing import Final

from muster.config import bounds
from muster.config.schema.kinds import (
    Schema,
    by_name,
    choice,
    defined,
    duration,
    each,
    either,
    flag,
    format_seconds,
    integer,
    key,
    mapping,
    number,
    quantity,
    text,
    texts,
    words,
)
from muster.model.kueue import (
    UNCOUNTED,
    AdmissionMode,
    BorrowPreemption,
    BorrowWithinCohort,
    Effect,
    Fungibility,
    KueueOptions,
    Migration,
    Operator,
    PodSetMerge,
    Preference,
    Search,
    SelectorOperator,
    StopPolicy,
    Strategy,
    UsageSharing,
)
from muster.model.kueue.checks import RETRIES
from muster.model.queues import Bound

_ANY: Final = integer(**bounds.ANY)


def settings() -> Schema:
    check = mapping(
        {
            "controllerName": key(
                "The controller that answers the check.", text(), example="example.com/budget"
            ),
            "parameters": key("The object that the controller reads.", _parameters()),
        },
        required=("controllerName",),
    )
    strategies = {"type": "array", "items": choice(Strategy), "uniqueItems": True}
    sharing = mapping(
        {
            "preemptionStrategies": key(
                "When fair sharing may preempt.",
                strategies,
                default=[strategy.value for strategy in Strategy],
            )
        }
    )
    return mapping(
        {
            "install": key(
                "Whether Muster installs Kueue; false where the cluster has it.",
                flag(),
                default=KueueOptions().install,
            ),
            "topologies": key(
                "Name: node labels, from the widest level to the narrowest.",
                by_name(words()),
                otherwise="none",
                example={"racks": ["cloud.example.com/block", "kubernetes.io/hostname"]},
            ),
            "flavors": key(
                "ResourceFlavors without a pool, by name.",
                by_name(mapping(_flavor())),
                otherwise="none",
                example={"on-premises": {"nodeLabels": {"site": "lab"}}},
            ),
            "admissionChecks": key(
                "Checks of other controllers, by name.",
                by_name(check),
                otherwise="none",
                example={"budget": {"controllerName": "example.com/budget"}},
            ),
            "provisioningRequestConfigs": key(
                "ProvisioningRequestConfigs that no queued pool brings, by name.",
                by_name(_request_config()),
                otherwise="none",
                example={"flex": {"provisioningClassName": "queued-provisioning.gke.io"}},
            ),
            "fairSharing": key("How fair sharing preempts, where any `weight` is set.", sharing),
            "admissionFairSharing": key("How past use counts.", _usage_sharing(), otherwise="it does not"),
            "excludeResourcePrefixes": key(
                "Prefixes of resources that no queue counts.",
                words(),
                otherwise="none",
                example=["example.com/"],
            ),
            "deviceClasses": key(
                "DeviceClass: the resource of which a claimed device takes quota, or `uncounted`.",
                texts(),
                otherwise="none, and no work with resourceClaims is admitted",
                example={"compute-domain-default-channel.nvidia.com": UNCOUNTED},
            ),
        }
    )


def _request_config() -> Schema:
    retry = mapping(
        {
            "backoffLimitCount": key("Retries before Kueue deactivates the work.", integer(), example=3),
            "backoffBaseSeconds": key("Seconds before the first retry.", integer(), example=60),
            "backoffMaxSeconds": key("Maximum seconds between two retries.", integer(), example=1800),
        }
    )
    return mapping(
        {
            "provisioningClassName": key(
                "The class of its requests.", text(), example="check-capacity.autoscaling.x-k8s.io"
            ),
            "parameters": key(
                "Parameters of its requests.",
                texts(),
                otherwise="none",
                example={"maxRunDurationSeconds": "3600"},
            ),
            "managedResources": key(
                "Only pods that ask for one of these wait.",
                words(),
                otherwise="all",
                example=["nvidia.com/gpu"],
            ),
            "retryStrategy": key("How failed requests are repeated.", retry, otherwise="Kueue's own"),
            "podSetMergePolicy": key(
                "Which PodSets become one PodSet of the request.", choice(PodSetMerge), otherwise="none"
            ),
            "nodeSelector": key(
                "Node label: the detail of the finished request that pods are pinned to.",
                texts(),
                otherwise="none",
                example={"example.com/slice": "SliceName"},
            ),
        },
        required=("provisioningClassName",),
    )


def _parameters() -> Schema:
    return mapping(
        {
            "apiGroup": key("Its API group.", text(), example="example.com"),
            "kind": key("Its kind.", text(), example="Budget"),
            "name": key("Its name.", text(), example="gpus"),
        },
        required=("apiGroup", "kind", "name"),
    )


def _usage_sharing() -> Schema:
    known = UsageSharing()
    return mapping(
        {
            "usageHalfLifeTime": key(
                "After this time past use counts half.", duration(), default=format_seconds(known.half_life)
            ),
            "usageSamplingInterval": key(
                "How often use is sampled.", duration(), default=format_seconds(known.sampling)
            ),
            "resourceWeights": key(
                "Resource: how much it counts.",
                by_name(number(most=1_000_000)),
                otherwise="1 for each",
                example={"nvidia.com/gpu": 1, "cpu": 0.1},
            ),
        }
    )


def _flavor() -> dict[str, Schema]:
    taint = mapping(
        {
            "key": key("The key of the taint.", text(), example="example.com/dedicated"),
            "value": key("The value of the taint.", text(), otherwise="none", example="research"),
            "effect": key("What it does to pods that do not tolerate it.", choice(Effect)),
        },
        required=("key", "effect"),
    )
    toleration = mapping(
        {
            "key": key("The key of the taint.", text(), otherwise="any", example="example.com/dedicated"),
            "operator": key("How the value is compared.", choice(Operator), default=Operator.EQUAL.value),
            "value": key("The value of the taint.", text(), otherwise="none", example="research"),
            "effect": key("The effect of the taint.", choice(Effect), otherwise="any"),
            "seconds": key("How long it tolerates NoExecute.", _ANY, otherwise="forever", example=300),
        }
    )
    return {
        "nodeLabels": key(
            "Further labels that its nodes have.", texts(), otherwise="none", example={"site": "lab"}
        ),
        "nodeTaints": key(
            "Further taints that its nodes have.",
            each(taint),
            otherwise="none",
            example=[{"key": "example.com/dedicated", "effect": "NoSchedule"}],
        ),
        "tolerations": key(
            "Further tolerations of the pods that get it.",
            each(toleration),
            otherwise="none",
            example=[{"key": "example.com/dedicated", "operator": "Exists"}],
        ),
        "topology": key("One of `muster:kueue.topologies`.", text(), otherwise="none", example="racks"),
    }


def pool() -> Schema:
    provisioning = mapping(
        {
            "check": key(
                "The name of Kueue's own check.",
                text(),
                otherwise="from the provisioning class",
                example="rayjob-gpu",
            ),
            "config": key(
                "The name of its ProvisioningRequestConfig.",
                text(),
                otherwise="from the provisioning class",
                example="rayjob-gpu-config",
            ),
            "retries": key(
                "Retries before Kueue deactivates the work.", integer(**bounds.RETRIES), default=RETRIES
            ),
            "podSetMergePolicy": key(
                "Which PodSets become one PodSet of the request.", choice(PodSetMerge), otherwise="none"
            ),
            "nodeSelector": key(
                "Node label: the detail of the finished request that pods are pinned to.",
                texts(),
                otherwise="what the provisioning class needs",
                example={"example.com/slice": "SliceName"},
            ),
        }
    )
    return mapping(
        {
            "flavor": key(
                "The name of the ResourceFlavor.",
                text(),
                otherwise="the pool's name",
                example="default-flavor",
            ),
            "exact": key(
                "Whether the flavor has these labels, taints and tolerations alone, without the pool's label "
                "and the GPU taint; for `provider: existing` without Muster's gang admission.",
                flag(),
                default=False,
            ),
            **_flavor(),
            "provisioning": key("Kueue's own check, with `gangAdmission: builtin`.", provisioning),
        }
    )


def cohort() -> Schema:
    return mapping(
        {
            "cohort": key(
                "The name of the Cohort; `none` for teams that share nothing.",
                text(),
                otherwise="the department's name",
                example="all",
            ),
            "resourceGroups": defined("resourceGroups"),
        }
    )


def resource_groups() -> Schema:
    resource = mapping(
        {
            "name": key("The resource.", text(), example="example.com/license"),
            "nominalQuota": key("What is guaranteed.", quantity(), example=10),
            "borrowingLimit": key("The most that is borrowed.", quantity(), otherwise="no limit", example=5),
            "lendingLimit": key("The most that is lent.", quantity(), otherwise="no limit", example=5),
        },
        required=("name", "nominalQuota"),
    )
    flavor = mapping(
        {
            "name": key(
                "A ResourceFlavor: a pool's, or one of `muster:kueue.flavors`.", text(), example="on-premises"
            ),
            "resources": key("Its quotas.", each(resource)),
        },
        required=("name",),
    )
    group = mapping(
        {
            "coveredResources": key("The resources of the group.", words(), example=["example.com/license"]),
            "flavors": key("The flavors of the group.", each(flavor)),
        }
    )
    return key(
        "Quotas as in Kueue's API. Groups that cover CPU, memory or GPUs replace the pools' quotas.",
        each(group),
        otherwise="none",
    )


def queue() -> Schema:
    known = Fungibility()
    fungibility = mapping(
        {
            "whenCanBorrow": key(
                "What happens at a flavor that needs borrowing.",
                choice(Search),
                default=known.when_can_borrow.value,
            ),
            "whenCanPreempt": key(
                "What happens at a flavor that needs preemption.",
                choice(Search),
                default=known.when_can_preempt.value,
            ),
            "preference": key(
                "Which of the two is better, where both others are TryNextFlavor.",
                choice(Preference),
                otherwise="none",
            ),
        }
    )
    borrow = mapping(
        {
            "policy": key(
                "Which work it may preempt in order to borrow.",
                choice(BorrowPreemption),
                default=BorrowWithinCohort().policy.value,
            ),
            "maxPriorityThreshold": key(
                "Only work up to this priority is preempted.", _ANY, otherwise="no threshold", example=100
            ),
        }
    )
    scope = mapping(
        {"admissionMode": key("Whether past use orders its LocalQueues.", choice(AdmissionMode))},
        required=("admissionMode",),
    )
    concurrent = mapping(
        {
            "mode": key("What admitted work does when a better flavor is free.", choice(Migration)),
            "lastAcceptableFlavorName": key("The last flavor that is tried.", text(), example="l4"),
        },
        required=("mode",),
    )
    uses = either(choice([Bound.ALL]), {"type": "array", "items": {"type": "string"}, "minItems": 1})
    return mapping(
        {
            "clusterQueue": key(
                "The name of the ClusterQueue.", text(), otherwise="the team's name", example="vision-gpus"
            ),
            "localQueues": key(
                "Further LocalQueues, by name.", by_name(_local_queue()), example={"nightly": {"weight": 1}}
            ),
            "namespaceSelector": key(
                "Namespaces that may use the queue.", _selector(), otherwise="the team's namespace"
            ),
            "stopPolicy": _stop_policy(),
            "flavorFungibility": key("When the next flavor is tried.", fungibility, otherwise="Kueue's own"),
            "borrowWithinCohort": key("Whether it preempts in order to borrow.", borrow),
            "admissionScope": key("How work of its LocalQueues is ordered.", scope, otherwise="none"),
            "admissionChecks": key(
                "Check: the pools that it applies to, or `all`.",
                by_name(uses),
                otherwise="none",
                example={"budget": ["l4"]},
            ),
            "concurrentAdmissionPolicy": key(
                "Admission on every flavor at once (alpha in Kueue).", concurrent, otherwise="none"
            ),
            "resourceGroups": defined("resourceGroups"),
        }
    )


def _stop_policy() -> Schema:
    return key(
        "Hold admits nothing more; HoldAndDrain also evicts what runs.",
        choice(StopPolicy),
        default=StopPolicy.NONE.value,
    )


def _local_queue() -> Schema:
    weight = integer(**bounds.SHARE)
    return mapping(
        {
            "namespaces": key(
                "The namespaces that have it, with `muster:tenancy.namespaces: existing`; [] is none.",
                words(),
                otherwise="the team's",
                example=["research", "default"],
            ),
            "stopPolicy": _stop_policy(),
            "weight": key("Its share, where past use counts.", weight, otherwise="1", example=2),
        }
    )


def _selector() -> Schema:
    expression = mapping(
        {
            "key": key("The label.", text(), example="team"),
            "operator": key("How it is compared.", choice(SelectorOperator)),
            "values": key("The values, for In and NotIn.", words(), example=["vision", "speech"]),
        },
        required=("key", "operator"),
    )
    return mapping(
        {
            "matchLabels": key("Labels with their values.", texts(), example={"team": "vision"}),
            "matchExpressions": key(
                "Expressions that all have to hold.",
                each(expression),
                example=[{"key": "team", "operator": "In", "values": ["vision", "speech"]}],
            ),
        }
    )
