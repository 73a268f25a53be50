"""Messages of the tenancy policies, and the stacks that have them; tests/integration/tenancy runs their
CEL.
"""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from muster.model import names
from muster.model.capacity import Capacity, Gangs
from muster.model.gangpolicy import GangPolicy, IdlePolicy, OnStaggered
from muster.model.kueue import Topology
from muster.model.observability import RecordingSettings
from muster.model.queues import Allowance, Department
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.model.tenancy import Tenancy, TenancyMode
from muster.model.work import Work
from muster.render import tenancy
from tests.unit.model.model_stacks import CPU, L4, team, two_teams

LABEL = "metadata.labels["


def _stack(scheduler: Scheduler, mode: GangMode) -> Stack:
    return replace(two_teams(Allowance()), scheduler=scheduler, gang_admission=GangAdmission(mode=mode))


def _messages(some: Stack, name: str) -> list[str]:
    (found,) = [policy for policy, _ in tenancy.policies(some) if policy["metadata"]["name"] == name]
    rules: list[dict[str, Any]] = found["spec"]["validations"]
    return [rule["messageExpression"] for rule in rules]


@pytest.mark.parametrize("mode", GangMode)
@pytest.mark.parametrize("scheduler", Scheduler)
def test_pods_with_gpus_have_the_gate_where_something_removes_it(
    scheduler: Scheduler, mode: GangMode
) -> None:
    gated = any("wait behind the gate" in says for says in _messages(_stack(scheduler, mode), "muster-pods"))
    assert gated == (scheduler is Scheduler.KAI and mode is GangMode.MUSTER)


@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_message_about_a_label_names_its_place_in_a_cron_job(scheduler: Scheduler) -> None:
    told = [says for says in _messages(_stack(scheduler, GangMode.MUSTER), "muster-work") if LABEL in says]
    assert told
    for says in told:
        assert says.count(LABEL) == says.count(f"variables.jobPath + '{LABEL}"), says


PLAIN = two_teams(Allowance())
KAI = replace(PLAIN, scheduler=Scheduler.KAI)
BARE = replace(L4, capacity=Capacity.ON_DEMAND, provisioning_class=None)
ON_DEMAND = replace(PLAIN, pools=(CPU, BARE))
PLACEHOLDERS = replace(PLAIN, pools=(CPU, replace(BARE, gangs=Gangs.PLACEHOLDERS)))
KAI_PLACEHOLDERS = replace(PLACEHOLDERS, scheduler=Scheduler.KAI)
HOLD = replace(PLAIN, gang_admission=GangAdmission(policy=GangPolicy(on_staggered=OnStaggered.HOLD)))
IDLE = replace(
    PLAIN, departments=(Department(name="research", teams=(replace(team("team-a"), idle=IdlePolicy()),)),)
)
FORECASTS = replace(PLAIN, recording=RecordingSettings(enabled=True, forecasts=True))
WARN = replace(PLAIN, tenancy=Tenancy(mode=TenancyMode.WARN))
NO_PARAMETERS = replace(PLAIN, tenancy=Tenancy(parameters=()))
DEPLOYMENTS = replace(PLAIN, work=(*PLAIN.work, Work.DEPLOYMENT))
OWN_KUEUE = replace(PLAIN, kueue=replace(PLAIN.kueue, install=False))
CLASSES = replace(PLAIN, kueue=replace(PLAIN.kueue, device_classes={"gpu.nvidia.com": "nvidia.com/gpu"}))
RACKS = replace(
    PLAIN,
    pools=(CPU, replace(BARE, kueue=replace(BARE.kueue, topology="racks"))),
    kueue=replace(PLAIN.kueue, topologies=(Topology(name="racks", levels=("example.com/rack",)),)),
)
ANYWHERE = '"namespaceSelector": {}'
PATH = "{'path': dyn('spec.template'), 'template': dyn"


def _text(some: Stack, name: str) -> str:
    (found,) = [policy["spec"] for policy, _ in tenancy.policies(some) if policy["metadata"]["name"] == name]
    return json.dumps(found)


@pytest.mark.parametrize(
    ("name", "piece", "having", "lacking"),
    [
        # What our own account may do where the stack needs it, and only there.
        ("muster-controller", f"key != '{names.FORECAST_ANNOTATION}'", [FORECASTS], [PLAIN]),
        ("muster-controller", f"'{names.PLACED_ANNOTATION}'", [PLAIN, PLACEHOLDERS], [ON_DEMAND]),
        ("muster-controller", f", tolerations of {names.HELD_TAINT_KEY}", [PLACEHOLDERS], [PLAIN]),
        ("muster-controller", "of others that they are idle", [IDLE], [PLAIN]),
        ("muster-controller", ANYWHERE, [PLAIN], []),
        ("muster-controller-pods", "pods that keep nodes", [PLACEHOLDERS, HOLD], [PLAIN]),
        ("muster-controller-pods", "request.?dryRun", [PLAIN], [KAI_PLACEHOLDERS]),
        ("muster-controller-pods", min(names.UNDISTURBED), [KAI_PLACEHOLDERS], [KAI, PLACEHOLDERS]),
        ("muster-controller-pods", "deletes its placeholders", [KAI_PLACEHOLDERS], [KAI]),
        ("muster-controller-ray-clusters", "jobs", [KAI], [PLAIN]),
        ("muster-pods", "owner.kind == 'Workload'", [HOLD], [PLAIN]),
        # What tenants may do.
        ("muster-pods", "a bare Pod or a Deployment", [PLAIN], [DEPLOYMENTS]),
        ("muster-work", ANYWHERE, [], [PLAIN]),
        ("muster-work", "Allowed: maxRunDurationSeconds", [PLAIN], [NO_PARAMETERS]),
        ("muster-work", "Allowed: none", [NO_PARAMETERS], []),
        ("muster-templates", "remove resourceClaims: ", [PLAIN, KAI], [OWN_KUEUE, CLASSES]),
        ("muster-templates", "write resourceClaimTemplateName", [CLASSES], [OWN_KUEUE]),
        ("muster-reviews", "it names no queue", [WARN], [PLAIN]),
        ("muster-reviews", '"jobs"', [WARN], [PLAIN]),
        ("muster-node-labels", "key.startsWith(", [PLAIN], []),
        ("muster-topologies", "unconstrained-topology", [PLAIN], [RACKS]),
        ("muster-owners", "'RayCluster'", [PLAIN], []),
        ("muster-owners", "'CronJob'", [], [PLAIN]),
        # The pods of a TrainJob are its runtime's, and those of all others their own.
        ("muster-templates", f"{PATH}(object.spec.template)", [PLAIN], []),
        ("muster-templates", "'image': dyn('of the runtime')", [PLAIN], []),
        ("muster-templates", "'runAsNonRoot': dyn(true)", [PLAIN], []),
    ],
)
def test_a_policy_says_what_its_stack_needs_and_no_more(
    name: str, piece: str, having: list[Stack], lacking: list[Stack]
) -> None:
    assert [piece in _text(each, name) for each in having] == [True] * len(having)
    assert [piece in _text(each, name) for each in lacking] == [False] * len(lacking)


def test_rights_of_one_account_are_not_those_of_its_namespace() -> None:
    text = json.dumps(tenancy.admission_objects(PLAIN))
    namespaces = set(re.findall("'system:serviceaccounts:([^']+)'", text))
    accounts = set(re.findall("'system:serviceaccount:([^']+)'", text))
    assert {each.count(":") for each in namespaces} == {0}
    assert {each.count(":") for each in accounts} == {1}
