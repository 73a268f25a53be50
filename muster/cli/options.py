"""The arguments and options that several commands share. They mean the same wherever they are declared. Those
of a replay, at the end, say what it takes for granted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from muster import paths
from muster.errors import MusterError
from muster.local.karpenter import Autoscaler
from muster.model.stack import Scheduler

if TYPE_CHECKING:
    from muster.replay.assumptions import Assumptions


_Member = TypeVar("_Member", bound=StrEnum)


class StackType(click.ParamType[str]):
    """A stack by its name or by its file; the shell completes the names of the project's stacks."""

    name = "stack"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = [CompletionItem(name) for name in stack_names() if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


class TeamType(click.ParamType[str]):
    """A team by its name; the shell completes those of an earlier `--stack`, or of all stacks."""

    name = "team"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        stack = ctx.params.get("stack")
        files = map(stack_path, [stack] if stack else stack_names())
        teams = {name for file in files if file.is_file() for name in _team_names(file)}
        return [CompletionItem(name) for name in sorted(teams) if name.startswith(incomplete)]


class MemberType(click.Choice[_Member]):
    """A member of an enumeration, written as its value. Click alone takes the names of members."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice)


STACK: Final = StackType()
TEAM: Final = TeamType()
FILE: Final = click.Path(path_type=Path, dir_okay=False)
DIRECTORY: Final = click.Path(path_type=Path, file_okay=False)

stack_argument = click.argument("stack", type=STACK, metavar="STACK")
"""STACK: the name of a stack of the project, or a stack file."""

manifests_option = click.option(
    "--manifests",
    nargs=2,
    metavar="BASE HEAD",
    help="In place of stacks: queue objects of Kueue and KAI, as any tool renders them. Each is a folder, a "
    "file, - (standard input), a git revision (`main:PATH`, or `main` for the other side's path), or `none`. "
    "Other objects are left out.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document to standard output instead of text."
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=FILE,
    metavar="FILE",
    help="Kubeconfig of the cluster. Default: KUBECONFIG, or ~/.kube/config.",
)
context_option = click.option(
    "--context",
    default="",
    metavar="NAME",
    help="Context in the kubeconfig. Default: its current context.",
)
namespace_option = click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAMESPACE",
    help="Namespace of the job. Default: that of the context.",
)
name_option = click.option(
    "--name",
    default="default",
    metavar="NAME",
    show_default=True,
    help="Which local cluster. Several can run side by side.",
)

programs_option = click.option(
    "--programs",
    type=click.Choice(["auto", "download", "build"]),
    help="Download released programs from their publishers, or build them from pinned modules. `auto` "
    "downloads what can be reached. Default: MUSTER_PROGRAMS, or auto; in CI always build.",
)


autoscaler_option = click.option(
    "--autoscaler",
    type=MemberType(Autoscaler),
    default=str(Autoscaler.SIMULATED),
    show_default=True,
    help="Who buys the GPU nodes: the simulated cloud, or the real Karpenter.",
)
scheduler_option = click.option(
    "--scheduler",
    type=MemberType(Scheduler),
    default=str(Scheduler.KUEUE),
    show_default=True,
    help="Kueue, which the stack installs, or the real KAI, which then runs beside the control plane.",
)


def stack_names() -> list[str]:
    """The names of the project's stacks, sorted."""
    files = (paths.project() / paths.STACKS).glob("Pulumi.*.yaml")
    return sorted(paths.stack_name(file) for file in files)


def _team_names(file: Path) -> list[str]:
    """Of a stack file that is being written: its teams as far as it can be read."""
    # Every command imports these options, and completion alone reads a stack here.
    from muster.config.document import NAMESPACE
    from muster.config.project import load_document
    from muster.config.stack import read_values

    values = {key.removeprefix(NAMESPACE): value for key, value in load_document(file).values.items()}
    return [team.name for _, team in read_values(values).teams()]


def stack_path(stack: str) -> Path:
    """The file that STACK names, whether it exists or not: itself, or the file of the project's stack."""
    if stack.endswith((".yaml", ".yml")) or "/" in stack:
        return Path(stack)
    return from_here(paths.stack_file(stack))


def existing_stack(stack: str) -> Path:
    """The file that STACK names; MusterError when there is none."""
    file = stack_path(stack)
    if problem := stack_file_problem(file):
        raise MusterError(f"{file}: {problem}", fix=stack_file_fix())
    return file


def stack_file_problem(file: Path) -> str:
    """Why this is no stack file, "" where it is one."""
    if file.is_dir():
        return "this is a folder, not a stack file."
    return "" if file.exists() else "there is no such stack file."


def stack_file_fix() -> str:
    """How to name a stack file that exists."""
    names = stack_names()
    known = f"name one of {', '.join(names)}, or a file" if names else "name a file"
    return f"{known}; `muster new` writes one."


def from_here(file: Path) -> Path:
    """As a user would write it: relative to the working directory where the file lies below it."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def job_place(job: str, namespace: str, kubeconfig: Path, context: str) -> tuple[str, str]:
    """Namespace and name of NAMESPACE/NAME, or of NAME in the namespace of the option or the context."""
    # Every command imports these options, and few read a kubeconfig.
    from muster.kubernetes.kubeconfig import load_access

    first, slash, name = job.partition("/")
    if slash and namespace and namespace != first:
        raise MusterError(f"{job!r} is not in namespace {namespace}.", fix="leave --namespace out.")
    if not slash:
        return namespace or load_access(kubeconfig, context).namespace, first
    if not (first and name) or "/" in name:
        raise MusterError(f"{job!r} is not NAMESPACE/NAME.", fix="write it like team-a/train.")
    return first, name


def kubeconfig_path(given: Path | None) -> Path:
    """The kubeconfig to read. Of several files in KUBECONFIG the first, which is what kubectl writes to."""
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return given or (Path(first) if first else Path.home() / ".kube" / "config")


Function = TypeVar("Function", bound=Callable[..., Any])

_RECORDED: Final = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The values of the options, as they were written."""

    grace: str
    durations: str
    provisioning: tuple[str, ...]
    seed: int

    def parse(self) -> Assumptions:
        """AssumptionError where one cannot be read."""
        # What replays takes longer to import than `--help` may.
        from muster.replay.assumptions import Assumptions, parse_grace, parse_provisioning, parse_scale

        return Assumptions(
            grace=parse_grace(self.grace),
            scale=parse_scale(self.durations),
            provisioning=parse_provisioning(self.provisioning),
            seed=self.seed,
        )


_OPTIONS: Final = (
    click.option(
        "--grace",
        default="0",
        show_default=True,
        metavar="SECONDS",
        help="Replay: how long a preempted job takes to give its quota back. Seconds, or `recorded`.",
    ),
    click.option(
        "--durations",
        default=_RECORDED,
        show_default=True,
        metavar="HOW",
        help="Replay: how long jobs run. A factor such as x1.2, `drawn` from what jobs of the same "
        "team and priority took, or `recorded`.",
    ),
    click.option(
        "--provisioning",
        multiple=True,
        metavar="POOL=TIME",
        help="Replay: how long nodes of a pool take after the reservation of quota, such as h100=8m, "
        "or h100=recorded to draw from the recording. May be repeated. Default: no time.",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of the replay's random draws: equal seeds give equal answers.",
    ),
)


def assumption_options(function: Function) -> Function:
    """--grace, --durations, --provisioning and --seed."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
