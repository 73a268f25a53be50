"""What a team's job has to carry, and the smallest RayJob of a team."""

from pathlib import Path

import pytest

from muster.config import load
from muster.model import names
from muster.model.stack import Scheduler
from muster.render.queuetree import dry_runs, submissions

STACKS = sorted((Path(__file__).parents[3] / "stacks").glob("Pulumi.*.yaml"))


def test_a_team_of_kueue_names_its_local_queue_and_a_priority() -> None:
    stack = load(Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml")
    found = submissions(stack)["team-a"]
    assert found.output() == {
        "namespace": "team-a",
        "queues": [{"name": "default", "labels": {"kueue.x-k8s.io/queue-name": "default"}}],
        "priorityLabel": "kueue.x-k8s.io/priority-class",
        "priorities": ["prod", "dev"],
        "defaultPriority": "",
    }


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem)
def test_every_team_of_every_stack_has_a_queue_and_a_dry_run_that_names_it(file: Path) -> None:
    stack = load(file)
    found, jobs = submissions(stack), dry_runs(stack)
    label = names.KAI_QUEUE_LABEL if stack.scheduler is Scheduler.KAI else names.QUEUE_LABEL
    assert found.keys() == jobs.keys() == {team.name for _, team in stack.teams()}
    for team, job in jobs.items():
        metadata = job["metadata"]
        assert metadata["namespace"] == found[team].namespaces[0]
        assert metadata["labels"][label] in {queue.name for queue in found[team].queues}
        assert metadata["labels"].get(found[team].priority_label, "") in {*found[team].priorities, ""}
