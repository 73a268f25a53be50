"""Rules for programs that a stack does not install: a setting that only reaches a program through the chart
that Muster installs would silently do nothing, and so would `install: true` of a program without use.
"""

from collections.abc import Iterator

from muster.model.gpu_operator import gpu_stack, required_installation
from muster.model.kai import KaiSettings
from muster.model.kueue import KueueOptions
from muster.model.programs import PLACEMENTS, Program
from muster.model.sharing import Sharing
from muster.model.stack import ArtifactSource, PodsReady, Scheduler, Stack
from muster.model.violations import Violation, at


def program_rules(stack: Stack) -> list[Violation]:
    """Every setting that has no effect because its program is not installed by the stack."""
    found: list[Violation] = []
    if stack.scheduler is Scheduler.KUEUE and not stack.installs(Program.KUEUE):
        found += _kueue(stack)
    if stack.scheduler is Scheduler.KAI and not stack.installs(Program.KAI):
        found += _kai(stack.kai)
    if not stack.installs(Program.GPU_OPERATOR):
        found += _gpu_operator(stack)
    elif stack.gpu_operator.install and required_installation(stack) is None:
        message = f"installs nothing: {_without_operator(stack)}."
        found.append(Violation(at(PLACEMENTS[Program.GPU_OPERATOR].key, "install"), message, "remove it."))
    return found


def _without_operator(stack: Stack) -> str:
    """Why a stack that asks for the GPU Operator gets none."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return "with `muster:artifacts: local` GPUs are simulated"
    if gpu_stack(stack.cluster) is None:
        return "EKS Auto Mode has a driver and a device plugin of its own"
    return "no pool has NVIDIA GPUs that the operator serves"


def _kueue(stack: Stack) -> Iterator[Violation]:
    """The settings of Kueue's own configuration file, which the chart brings."""
    key, known = PLACEMENTS[Program.KUEUE].key, KueueOptions()
    settings = {
        "muster:podsReady": stack.pods_ready != PodsReady(),
        at(key, "fairSharing"): stack.kueue.strategies != known.strategies,
        at(key, "admissionFairSharing"): stack.kueue.usage_sharing != known.usage_sharing,
        at(key, "deviceClasses"): stack.kueue.device_classes != known.device_classes,
        at(key, "excludeResourcePrefixes"): stack.kueue.exclude_resources != known.exclude_resources,
    }
    fix = f"remove it and set it in that Kueue's own configuration, or remove `{key}.install: false`."
    for path, is_set in settings.items():
        if is_set:
            yield _without_effect(path, Program.KUEUE, fix)
    if stack.is_weighted:
        message = "weights need fair sharing, and this stack does not install Kueue."
        fix = "set `fairSharing` in that Kueue's own configuration (docs/existing-programs.md)."
        yield Violation(at(key, "install"), message, fix, level="warning")


def _kai(settings: KaiSettings) -> Iterator[Violation]:
    key = PLACEMENTS[Program.KAI].key
    fix = f"remove it and set it where KAI is installed, or remove `{key}.install: false`."
    if settings.gpu_sharing:
        yield _without_effect(at(key, "gpuSharing"), Program.KAI, fix)
    if settings.cluster_autoscaling:
        yield _without_effect(at(key, "clusterAutoscaling"), Program.KAI, fix)


def _gpu_operator(stack: Stack) -> Iterator[Violation]:
    """The operator's device plugin learns how GPUs are shared from a ConfigMap of our chart values."""
    needed = required_installation(stack)
    if needed is None or not needed.has_plugin:
        return
    key = PLACEMENTS[Program.GPU_OPERATOR].key
    fix = f"remove it, or remove `{key}.install: false`."
    for pool in needed.pools:
        if pool.sharing.kind is not Sharing.NONE:
            yield _without_effect(at("muster:pools", pool.name, "sharing"), Program.GPU_OPERATOR, fix)


def _without_effect(path: str, program: Program, fix: str) -> Violation:
    title = PLACEMENTS[program].title
    return Violation(path, f"has no effect: this stack does not install the {title} that reads it.", fix)
