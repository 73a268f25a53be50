"""Whether the programs that a cluster already has fit what a stack installs. Pure, but for `check`.

Two Kueues, KubeRays or GPU Operators in one cluster answer the same webhooks and act on the same objects. A
stack that leaves a program out (`install: false`) needs the one in the cluster to be of a version that works.
Nothing is made before both are known: `check` is what the first objects of the platform wait for.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pulumi

from muster.components.bundle import BundleProvider, find
from muster.model.gpu_operator import required_installation
from muster.model.minimum_versions import MINIMUM_VERSIONS
from muster.model.programs import PLACEMENTS, Placement, Program
from muster.model.stack import Scheduler, Stack
from muster.model.versions import Version
from muster.render.manifest import Manifest

_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)?")
# What Muster writes is v1beta2 as 0.19 has it: older releases drop fields that they do not know, and those
# before 0.16 store v1beta1, in which queues would lose their cohorts.
_OLDEST = {Program.KUEUE: Version(0, 19)}
# Muster's own release upgrades an older one of these in place; Kueue's stored objects do not survive that.
_UPGRADED = frozenset({Program.KAI, Program.KUBERAY, Program.GPU_OPERATOR})


class IncompatibleProgramError(pulumi.RunError):
    """A program of the cluster is in the way, too old, or missing; the message names it and the fix."""


@dataclass(frozen=True, slots=True)
class ExistingProgram:
    """A Deployment that runs the program. `version` is None where neither label nor image tag holds one."""

    namespace: str
    version: Version | None

    @classmethod
    def of(cls, deployment: Manifest) -> "ExistingProgram":
        """From the chart's label, or from the tag of an image."""
        metadata = deployment["metadata"]
        label = (metadata.get("labels") or {}).get("app.kubernetes.io/version", "")
        containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        tags = [str(each.get("image", "")).partition("@")[0].rpartition(":")[2] for each in containers]
        texts = (text for text in (label, *tags) if _VERSION.fullmatch(text))
        version = next(map(Version.of, texts), None)
        return cls(metadata["namespace"], version)

    def __str__(self) -> str:
        return f"{self.version or 'of unknown version'} in namespace {self.namespace}"


def check(stack: Stack, *, provider: BundleProvider) -> pulumi.Output[None]:
    """Look for the stack's programs in the cluster. The output fails with IncompatibleProgramError; it passes
    where the cluster does not exist yet or a preview cannot reach it.
    """
    used = programs_of(stack)
    found = [deployments_of(program, provider=provider) for program in used]

    def refuse_all(lists: list[list[Manifest] | None]) -> None:
        for program, deployments in zip(used, lists, strict=True):
            refuse(program, deployments, installs=stack.installs(program))

    return pulumi.Output.all(*found).apply(refuse_all)


def deployments_of(program: Program, *, provider: BundleProvider) -> pulumi.Output[list[Manifest] | None]:
    """The Deployments that run the program; None where the cluster was not asked."""
    return find("apps/v1", "Deployment", PLACEMENTS[program].selector, provider=provider)


def programs_of(stack: Stack) -> tuple[Program, ...]:
    """The programs that the stack needs, installed by it or not."""
    scheduler = Program.KAI if stack.scheduler is Scheduler.KAI else Program.KUEUE
    of_gpus = () if required_installation(stack) is None else (Program.GPU_OPERATOR,)
    return (scheduler, Program.KUBERAY, *of_gpus)


def refuse(program: Program, deployments: Iterable[Manifest] | None, *, installs: bool) -> None:
    """Raise IncompatibleProgramError unless what is found fits: nothing or Muster's own where the stack
    installs the program, exactly one of a version that works where it does not. None passes: the cluster was
    not asked.
    """
    if deployments is None:
        return
    placement = PLACEMENTS[program]
    found = [ExistingProgram.of(deployment) for deployment in deployments]
    if installs:
        for each in found:
            _refuse_second(placement, each)
            if program not in _UPGRADED:
                _refuse_old(program, placement, each)
        return
    if len(found) != 1:
        raise IncompatibleProgramError(_wrong_number(placement, found))
    _refuse_misplaced(placement, found[0])
    _refuse_old(program, placement, found[0])


def oldest(program: Program) -> Version:
    """The oldest release that an existing installation may be of."""
    return _OLDEST.get(program, MINIMUM_VERSIONS[program].version)


def _refuse_second(placement: Placement, found: ExistingProgram) -> None:
    if found.namespace == placement.namespace:
        return
    title, key = placement.title, placement.key
    move = f"move it to namespace {placement.namespace} and " if placement.is_bound else ""
    raise IncompatibleProgramError(
        f"the cluster has another {title} ({found}): two would act on the same objects. Fix: remove it with "
        f"what installed it (objects and jobs stay); or keep it: {move}set `{key}.install: false`."
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
