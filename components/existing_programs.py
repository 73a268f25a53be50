"""Whether the programs that a cluster already has fit what a stack installs. Pure, but for `check`.

Two Kueues, KubeRays or GPU Operators in one cluster answer the same webhooks and act on the same objects. A
stack that leaves a program out (`install: false`) needs the one in the cluster to be of a version that works.
Nothing is made before both are known: `check` is what the first objects of the platform wait for.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi

from muster.artifacts.resolved import versions_of
from muster.components.bundle import BundleProvider, find
from muster.model.gpu_operator import required_installation
from muster.model.programs import PLACEMENTS, Placement, Program, Version, running_version
from muster.model.stack import ArtifactSource, Stack
from muster.model.transitions import Verdict, judge
from muster.model.versions import MINIMUM_VERSIONS
from muster.render.manifest import Manifest

# Its stored objects do not survive an upgrade from an unknown version.
_WITH_KNOWN_VERSION = frozenset({Program.KUEUE})


class IncompatibleProgramError(pulumi.RunError):
    """A program of the cluster is in the way, too old, or missing; the message names it and the fix."""


@dataclass(frozen=True, slots=True)
class ExistingProgram:
    """A Deployment that runs the program. `version` is None where neither label nor image tag holds one."""

    namespace: str
    version: Version | None

    @classmethod
    def of(cls, deployment: Manifest) -> "ExistingProgram":
        return cls(deployment["metadata"]["namespace"], running_version(deployment))

    def __str__(self) -> str:
        return f"{self.version or 'of unknown version'} in namespace {self.namespace}"


def check(stack: Stack, *, provider: BundleProvider) -> pulumi.Output[None]:
    """Look for the stack's programs in the cluster. The output fails with IncompatibleProgramError; it passes
    where the cluster does not exist yet or a preview cannot reach it.
    """
    used = programs_of(stack)
    found = [deployments_of(program, provider=provider) for program in used]
    wanted = versions_of(stack)

    def refuse_all(lists: list[list[Manifest] | None]) -> None:
        for program, deployments in zip(used, lists, strict=True):
            refuse(program, deployments, installs=stack.installs(program), wanted=wanted.get(program, ""))

    return pulumi.Output.all(*found).apply(refuse_all)


def deployments_of(program: Program, *, provider: BundleProvider) -> pulumi.Output[list[Manifest] | None]:
    """The Deployments that run the program; None where the cluster was not asked."""
    return find("apps/v1", "Deployment", PLACEMENTS[program].selector, provider=provider)


def programs_of(stack: Stack) -> tuple[Program, ...]:
    """The programs that the stack needs and that are Deployments, installed by it or not."""
    of_gpus = () if required_installation(stack) is None else (Program.GPU_OPERATOR,)
    are_processes = bool(stack.scheduler.traits.local_program) and stack.artifacts is ArtifactSource.LOCAL
    scheduler = () if are_processes else (stack.scheduler.program,)
    return (*scheduler, Program.KUBERAY, *of_gpus)


def refuse(
    program: Program, deployments: Iterable[Manifest] | None, *, installs: bool, wanted: str = ""
) -> None:
    """Raise IncompatibleProgramError unless what is found fits: nothing or Muster's own where the stack
    installs the program, exactly one of a version that works where it does not. None passes: the cluster was
    not asked. `wanted` is the version that the stack installs, "" where it is what was built here.
    """
    if deployments is None:
        return
    placement = PLACEMENTS[program]
    found = [ExistingProgram.of(deployment) for deployment in deployments]
    if installs:
        for each in found:
            _refuse_second(placement, each)
            _judge_step(program, placement, each, wanted)
        return
    if len(found) != 1:
        raise IncompatibleProgramError(_wrong_number(placement, found))
    _refuse_misplaced(placement, found[0])
    _refuse_old(program, placement, found[0])


def oldest(program: Program) -> Version:
    """The oldest release that an existing installation may be of."""
    return MINIMUM_VERSIONS[program].version


def _refuse_second(placement: Placement, found: ExistingProgram) -> None:
    if found.namespace == placement.namespace:
        return
    title, key = placement.title, placement.key
    move = f"move it to namespace {placement.namespace} and " if placement.is_bound else ""
    raise IncompatibleProgramError(
        f"the cluster has another {title} ({found}): two would act on the same objects. Fix: remove it with "
        f"what installed it (objects and jobs stay); or keep it: {move}set `{key}.install: false`."
    )


def _judge_step(program: Program, placement: Placement, found: ExistingProgram, wanted: str) -> None:
    """Refuse the step from what is there to what would be installed, or warn of its order."""
    if program in _WITH_KNOWN_VERSION:
        _refuse_old(program, placement, found)
    judgement = judge(program, str(found.version), wanted) if found.version and wanted else None
    if judgement is None or judgement.verdict is Verdict.SAFE:
        return
    if judgement.verdict is Verdict.ORDERED:
        pulumi.log.warn(str(judgement))
        return
    raise IncompatibleProgramError(
        f"the cluster has {placement.title} {found}, and this stack installs {wanted}: {judgement.reason}. "
        f"Fix: name a version that can be reached in `muster:versions` (docs/reference/versions.md)."
    )


def _refuse_old(program: Program, placement: Placement, found: ExistingProgram) -> None:
    wanted = oldest(program)
    if found.version is None or found.version < wanted:
        raise IncompatibleProgramError(
            f"the cluster has {placement.title} {found}; Muster needs {wanted} or newer. Fix: upgrade it "
            f"(docs/upgrades.md), or remove it and let Muster install its own."
        )


def _refuse_misplaced(placement: Placement, found: ExistingProgram) -> None:
    if placement.is_bound and found.namespace != placement.namespace:
        raise IncompatibleProgramError(
            f"the cluster has {placement.title} {found}, and Muster's policies recognise it by namespace "
            f"{placement.namespace}. Fix: install it there, or remove it and `{placement.key}.install`."
        )


def _wrong_number(placement: Placement, found: list[ExistingProgram]) -> str:
    title, key = placement.title, placement.key
    if not found:
        return (
            f"`{key}.install` is false, and the cluster has no {title} (no Deployment with labels "
            f"{placement.selector}). Fix: install it in namespace {placement.namespace}, or remove "
            f"`{key}.install`."
        )
    listed = "; ".join(map(str, found))
    return f"the cluster has {len(found)} installations of {title}: {listed}. Fix: keep one of them."
