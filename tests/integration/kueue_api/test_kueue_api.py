"""Whatever the model renders is taken unchanged by the real API server and by Kueue's own webhooks."""

import copy
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from muster.config import load
from muster.manifests import lean
from muster.model.stack import Scheduler, Stack
from tests.envtest import ControlPlane, path_of
from tests.integration.kueue_api.objects import Refused, apply
from tests.length import examples
from tests.unit.model.kueue_files import DEFAULTED, EVERYTHING, PREEMPTING, rendered
from tests.unit.model.kueue_stacks import kueue_stacks
from tests.waiting import eventually

_ROOT: Final = Path(__file__).parents[3]
SHARED: Final = Path(__file__).with_name("shared_queue.yaml")
_FILES: Final = sorted(
    [
        *(_ROOT / "stacks").glob("Pulumi.*.yaml"),
        *(_ROOT / "examples" / "stories").glob("*/stack.yaml"),
        *(_ROOT / "examples" / "on-premises").glob("stacks/*.yaml"),
        *(_ROOT / "examples" / "forty-teams").glob("stacks/*.yaml"),
        SHARED,
    ]
)
_FRAME: Final = ("apiVersion", "kind", "metadata", "status")


def _body(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _FRAME}


def _with_defaults(item: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(_body(item))
    for path, value in DEFAULTED.get(item["kind"], {}).items():
        *above, name = path.split(".")
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place.setdefault(name, value)
    return found


def _is_taken_unchanged(server: ControlPlane, stack: Stack) -> None:
    for item in rendered(stack):
        # What goes over the wire is JSON.
        sent = lean(json.loads(json.dumps(item)))
        found = apply(server, sent)
        if item["kind"] == "Namespace":
            assert sent["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
            continue
        assert _body(found) == _with_defaults(sent), item["metadata"]["name"]
        assert found["metadata"]["labels"] == sent["metadata"]["labels"]
        if (
            item["kind"] == "LocalQueue"
        ):  # never changes its ClusterQueue, and the next stack may have another
            server.call("DELETE", path_of(sent))


@pytest.mark.parametrize("path", [EVERYTHING, PREEMPTING], ids=lambda path: path.stem)
def test_every_object_that_says_everything_is_taken_unchanged(kueue_server: ControlPlane, path: Path) -> None:
    _is_taken_unchanged(kueue_server, load(path))


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_object_of_a_stack_file_is_taken_unchanged(kueue_server: ControlPlane, path: Path) -> None:
    stack = load(path)
    if stack.scheduler is not Scheduler.KUEUE:
        pytest.skip("another scheduler's")
    _is_taken_unchanged(kueue_server, stack)


@settings(max_examples=examples(25), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(some=kueue_stacks())
def test_every_object_of_any_stack_is_taken_unchanged(kueue_server: ControlPlane, some: Stack) -> None:
    _is_taken_unchanged(kueue_server, some)


def test_what_kueue_does_not_know_or_want_is_refused(kueue_server: ControlPlane) -> None:
    """So that the tests above prove something: the schema refuses the one, Kueue's webhook the other."""
    queue = next(item for item in rendered(load(PREEMPTING)) if item["kind"] == "ClusterQueue")
    unknown = copy.deepcopy(queue)
    unknown["spec"]["cohort"] = "research"
    with pytest.raises(Refused, match="cohort"):
        apply(kueue_server, unknown)
    lending = copy.deepcopy(queue)
    lending["metadata"]["name"] = "generous"
    lending["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "1k"
    with pytest.raises(Refused, match="lendingLimit"):
        apply(kueue_server, lending)


def test_the_queues_of_a_stack_admit_work(kueue_server: ControlPlane) -> None:
    """All that they refer to is there and active, but for checks that nobody answers here."""
    stack = load(PREEMPTING)
    for item in rendered(stack):
        apply(kueue_server, item)
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team-c"
    # What it said of an earlier stack's queue of this name stands until Kueue has looked again.
    eventually(
        "team-c lacks nothing", lambda: _said(kueue_server, path) in ("Ready", "AdmissionCheckInactive")
    )


def _said(server: ControlPlane, path: str) -> str:
    """Why it is active or is not."""
    conditions = (server.call("GET", path).get("status") or {}).get("conditions") or ()
    return next((str(each["reason"]) for each in conditions if each["type"] == "Active"), "")
