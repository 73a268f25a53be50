"""`muster demo`."""

import json
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

from muster.cli.command import command
from muster.cli.output import STDOUT, format_report, put
from muster.config.document import parse_text
from muster.config.edit import template
from muster.config.stack import examine
from muster.errors import ExitCode
from muster.kubernetes.client import Client
from muster.kubernetes.errors import ApiError
from muster.kubernetes.kubeconfig import Access
from muster.live.why.format import format_status
from muster.live.why.job_status import fetch_status
from muster.model.regions import Provider
from muster.preview.compare.diff import LoadedSide, StackDiff
from muster.preview.inputs import SharedInputs, compare_sides
from muster.preview.report import to_report

_EXAMPLES = """
muster demo
"""
_CODES = {ExitCode.DONE: "The three parts were shown."}
_STACK: Final = "prod"
# The change of the demo: two L4 from team-b to team-a.
_CHANGE: Final = (
    ("team-a: {quota: {l4: 4}", "team-a: {quota: {l4: 6}"),
    ("quota: {l4: 4}\n", "quota: {l4: 2}\n"),
)
_DATA: Final = files("muster.cli.demo")
_NEXT: Final = """\
Next:
  muster init clusters --provider existing --name dev --name prod    a project with these stacks
  muster diff --manifests origin/main queues/                        the report for the YAML that you have
  muster why NAMESPACE/JOB                                           in the cluster of your kubeconfig
"""


@command(examples=_EXAMPLES, codes=_CODES)
def cli() -> None:
    """Show the report of a quota change, a plan and the reason why a job waits, on data of the package.

    Nothing is read from a cluster or written to disk. The plan was recorded: `muster plan` plays a month of
    jobs with Kueue's own scheduler, which needs the extra `local`.
    """
    parts = (
        (
            "1. A pull request gives team-a two of team-b's L4. What does it mean?",
            f"muster diff {_STACK}",
            format_report(to_report(compare())),
        ),
        (
            "2. Is there a change that takes no quota from anyone? (recorded)",
            f'muster plan {_STACK} --recording last-month.jsonl.gz --goal "p95(team-a) < 3h" '
            '--keep "p95(team-b) < 15m"',
            (_DATA / "plan.txt").read_text(encoding="utf-8"),
        ),
        ("3. Why does team-a's job wait?", "muster why team-a/train", _why()),
    )
    for title, line, text in parts:
        put(STDOUT, f"{title}\n$ {line}\n\n{text.rstrip()}\n\n")
    put(STDOUT, _NEXT)


def compare() -> list[StackDiff]:
    """The two stacks of the demo."""
    text = template(_STACK, Provider.EXISTING)
    changed = text
    for before, after in _CHANGE:
        changed = changed.replace(before, after)
    base, head = (
        LoadedSide(True, examine(parse_text(each, source=f"Pulumi.{_STACK}.yaml"))[0])
        for each in (text, changed)
    )
    return compare_sides({_STACK: base}, {_STACK: head}, SharedInputs())


class _RecordedApi(Client):
    """Answers of an API server, by path."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        super().__init__(Access(server=""))
        self._objects = objects

    def get(self, path: str) -> Any:
        place, is_list, _ = path.partition("?limit=")
        answer = self._objects.get(place, {"items": []} if is_list else None)
        if answer is None:
            raise ApiError(404, b"")
        return answer


def _why() -> str:
    recorded = json.loads((_DATA / "cluster.json").read_text(encoding="utf-8"))
    namespace, name = recorded["job"]
    status = fetch_status(_RecordedApi(recorded["objects"]), namespace, name)
    assert status is not None
    return format_status(status, now=datetime.fromisoformat(recorded["now"]))
