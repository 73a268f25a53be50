"""Prometheus alerts about Muster.

Responsible for the expressions, for how long each has to be true, and for severities: `critical` is for
paging, `warning` for working hours, `info` for dashboards. `make reference` writes them into
docs/reference/metrics.md. A test compares the metrics with those of the controller.
"""

from dataclasses import dataclass
from typing import Final, Literal

from muster.model.gangpolicy import GangPolicy
from muster.render.dashboard import ours
from muster.render.manifest import Manifest

PAGE: Final = "docs/reference/metrics.md"
_SLACK_SECONDS: Final = 600
_WEEK_SECONDS: Final = 7 * 86_400
_UNUSED_SECONDS: Final = 1800
"""A gang has no pod for some minutes after its admission and between two tries of its job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`expr` is PromQL; `lasting` is how long it has to be true; `action` is what an operator does."""

    name: str
    severity: Literal["critical", "warning", "info"]
    expr: str
    lasting: str
    summary: str
    action: str

    def rule(self, *, runbooks: str | None = None) -> Manifest:
        """`runbooks`: the address of a page that has a section for each alert, by its name in lower case."""
        section = f"#{self.name.lower()}"
        runbook = {"runbook_url": runbooks + section} if runbooks else {"runbook": PAGE + section}
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": f"{self.action}.", **runbook},
        }


def alerts(policy: GangPolicy) -> tuple[Alert, ...]:
    """Return the alerts of an environment with this GangPolicy."""
    longest = int((policy.queue_timeout + policy.provision_timeout).total_seconds()) + _SLACK_SECONDS
    oldest = ours("muster_gang_oldest_timestamp_seconds", 'state="provisioning"')
    unused = ours("muster_gang_unused_quota_timestamp_seconds")
    deleted = ours("muster_gang_pods_without_quota_deleted_total")
    outlived = ours("muster_gang_pods_without_quota")
    errors = ours("controller_runtime_reconcile_total", 'result="error"')
    answers = ours("controller_runtime_webhook_requests_total", 'code=~"5.."')
    reviews = ours("muster_webhook_reviews_total", 'verdict="failed"')
    active = ours("muster_admission_checks", 'active="true"')
    serving = ours("muster_certificate_expiration_timestamp_seconds", 'certificate="serving"')
    sold, unsold = (
        f"sum by (pool) (increase({ours('muster_provisioning_requests_total', outcome)}[1h])) > 0"
        for outcome in ('outcome="provisioned"', 'outcome=~"out_of_stock|cloud_quota_exhausted"')
    )
    return (
        Alert(
            name="MusterNobodyLeads",
            severity="critical",
            expr=f"(max({ours('leader_election_master_status')}) or vector(0)) < 1",
            lasting="2m",
            summary="No gang-admission manager leads: no gang starts, and none is released.",
            action="If pods are not running: `kubectl -n "
            "muster-system describe pods`. If they run and none leads, their logs have the reason"
            " why they cannot renew the lease",
        ),
        Alert(
            name="MusterWebhooksFail",
            severity="critical",
            # A pod that does not run reports no metric, so a missing certificate is alerted on separately.
            expr=f"sum(rate({answers}[5m])) > 0 or sum(rate({reviews}[5m])) > 0 or absent({serving})",
            lasting="5m",
            summary="Reviews fail, or there is no webhook pod: work gets no defaults and no check of sizes.",
            action="New work passes without defaults and "
            "without a check of its size, so that it is refused for a missing queue, or waits. "
            "Check that a webhook pod is ready. Work that would bypass its queue is still refused by "
            "policies that need no process",
        ),
        Alert(
            name="MusterWebhooksMissing",
            severity="critical",
            expr=f"min by (kind) ({ours('muster_webhook_configuration_present')}) < 1",
            # `pulumi up` may replace a configuration: delete it and create it again.
            lasting="1m",
            summary="The {{ $labels.kind }} of Muster is missing: objects pass without its webhooks.",
            action="The ValidatingWebhookConfiguration or the MutatingWebhookConfiguration "
            "`gang-admission` was deleted or emptied: Ray objects and Jobs get no defaults and no"
            " reviews. The policies that need no process still apply. Run `pulumi up --refresh`; "
            "the webhooks put their certificate authority into it by themselves",
        ),
        Alert(
            name="MusterCertificateEnds",
            severity="critical",
            expr=f"min({ours('muster_certificate_expiration_timestamp_seconds')}) - time() < {_WEEK_SECONDS}",
            lasting="1h",
            summary="A webhook certificate expires within seven days and has not been renewed.",
            action="The webhook pods cannot write their Secret or their configurations. Read the log of "
            "`certificates`",
        ),
        Alert(
            name="MusterCheckIsInactive",
            severity="critical",
            # Not reported with KAI, nor before the first check exists.
            expr=f"max({active}) < 1",
            lasting="2m",
            summary="No AdmissionCheck of Muster is active, or none is left: no gang gets quota.",
            action="The AdmissionCheck was deleted, or is inactive: its ClusterQueues are inactive, and "
            "no gang gets quota. `kubectl get admissionchecks -o yaml` and `muster why` show the "
            "reason. After a deletion run `pulumi up`, which creates the check again",
        ),
        Alert(
            name="MusterQuotaHeldTooLong",
            severity="warning",
            expr=f"time() - ({oldest} > 0) > {longest}",
            lasting="5m",
            summary="A gang has held quota for longer than queueTimeout and provisionTimeout together.",
            action="The leader should have released this gang. Find it with `kubectl get workloads -A`, "
            "then read the leader's log lines with its uid",
        ),
        Alert(
            name="MusterQuotaUnused",
            severity="warning",
            expr=f"time() - ({unused} > 0) > {_UNUSED_SECONDS}",
            lasting="5m",
            summary="A Workload is admitted and holds quota, but none of its pods has a node.",
            action="A Workload is admitted, and for half an hour no pod that uses its capacity has been "
            "on a node. The leader's log line `quota without a pod` names it. Look at its job and"
            " RayCluster with `kubectl describe`: it may have failed without reaching an end, or "
            "been stopped outside Kueue. Deleting the job releases the quota",
        ),
        Alert(
            name="MusterPodsWithoutQuota",
            severity="warning",
            expr=f"sum(increase({deleted}[15m])) > 0 or max({outlived}) > 0",
            lasting="0m",
            summary="Pods in a team's namespace ran with devices and without quota.",
            action="The controller deletes such pods a minute after their grace period: an Event "
            "`PodWithoutQuota` is on their owner, and the leader's log lines `deleted a pod without quota` "
            "name it. Delete the owner, and find out how its pods outlived their quota: an object that "
            "KubeRay takes for invalid, another owner, Kueue or KubeRay that does not run. If "
            "`muster_gang_pods_without_quota` stays above 0, the log line `pods without quota stay` has "
            "the reason why they were not deleted",
        ),
        Alert(
            name="MusterWatchIsDeaf",
            severity="warning",
            expr=f"max by (resource) ({ours('muster_watch_lag_seconds')}) > 300",
            lasting="5m",
            summary="The API server sends no events about {{ $labels.resource }}: decisions may be late.",
            action="The controller decides from an old cache. All kinds: check the network to the API "
            "server. One kind: check that its CRD is still served",
        ),
        Alert(
            name="MusterReconcilesFail",
            severity="warning",
            expr=f"sum by (controller) (rate({errors}[5m])) > 0.1",
            lasting="15m",
            summary="Reconciles of controller {{ $labels.controller }} fail.",
            action="The log lines `reconcile failed` name the object and the error",
        ),
        Alert(
            name="MusterNodesBroken",
            severity="warning",
            expr=f"max by (state) ({ours('muster_gang_broken_nodes')}) > 0",
            lasting="30m",
            summary="Nodes are broken, and have not been repaired for half an hour ({{ $labels.state }}).",
            action="`muster doctor STACK --context CONTEXT` names those set aside, their signs and who "
            "repairs them. Beyond the bound (`beyond_bound`) other pods may still start there: repair those "
            "first, or raise `brokenNodes.most`",
        ),
        Alert(
            name="MusterBudgetSpent",
            severity="info",
            expr=f"max by (team) ({ours('muster_budget_used_ratio')}) >= 1",
            lasting="10m",
            summary="Team {{ $labels.team }} has used its GPU-hours of the month: nothing more of it starts.",
            action="Wait for the next month (UTC), or raise its `muster:budgets`. What runs is not touched",
        ),
        Alert(
            name="MusterPoolIsOutOfStock",
            severity="info",
            expr=f"{unsold} unless {sold}",
            lasting="1h",
            summary="The cloud has provided no capacity of pool {{ $labels.pool }} for an hour.",
            action="Consider another zone, another pool or a reservation",
        ),
        Alert(
            name="MusterGangRefused",
            severity="info",
            expr=f"sum(increase({ours('muster_gang_refusals_total')}[15m])) > 0",
            lasting="0m",
            summary="A gang was refused; its Workload shows the reason.",
            action="The gang's Workload and an Event have the reason. The owner changes the job and "
            "activates it again",
        ),
    )
