"""Resolves the charts and images of a stack to references.

Responsible for the place of each: its project's repository, a mirror, or a folder.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from muster import paths
from muster.artifacts import resolved
from muster.artifacts.catalogue import Catalogue, ChartEntry, catalogue
from muster.artifacts.resolved import ArtifactError, Artifacts
from muster.model import names
from muster.model.charts import OCI, Chart, ChartOrigin, ChartSource, has_digest
from muster.model.gpu_operator import installation
from muster.model.minimum_versions import minimum_version_rules
from muster.model.programs import Program, Version
from muster.model.stack import ArtifactSource, GangMode, Stack
from muster.paths import VERSIONS_FILE
from muster.render import gang

GANG_IMAGE: Final = "gang-admission"
RECORDER_IMAGE: Final = "recorder"
_PAUSE: Final = "pause"


def resolve_artifacts(stack: Stack, *, name: str) -> Artifacts:
    """The artifacts of the stack called `name`, built on this machine or published (`muster:artifacts`).

    Raises ArtifactError for a stack that needs the controller's image and names none, and for one of KAI on a
    local cluster without KAI, before any resource is registered.
    """
    if stack.artifacts is ArtifactSource.LOCAL:
        built = resolved.load()
        program = stack.scheduler.traits.local_program
        if program and program not in built.programs:
            raise ArtifactError(
                f"{built.source}: this local cluster runs no {stack.scheduler.proper_name}.",
                fix="start one that does: muster local down, then muster local up "
                f"--scheduler {stack.scheduler}.",
            )
        return built
    found = published(stack, name=name)
    if stack.gang_admission.mode is GangMode.MUSTER:
        found.image(GANG_IMAGE)
    return found


def chosen(stack: Stack) -> Catalogue:
    """The charts and images in the versions that the stack names; Muster's own where it names none."""
    return catalogue().at(stack.versions, kubernetes=_minor(kubernetes_of(stack)))


def versions_of(stack: Stack) -> dict[str, str]:
    """Component -> version of what the stack installs and of the cluster that it makes."""
    charts = chosen(stack).charts
    found = {name: charts[name].version.removeprefix("v") for name in installed(stack)}
    kubernetes = kubernetes_of(stack)
    return found | ({"kubernetes": kubernetes} if kubernetes else {})


def kubernetes_of(stack: Stack) -> str:
    """The version that the stack names for its cluster; empty where the stack does not choose it."""
    return stack.cluster.version or ""


def _minor(text: str) -> str:
    try:
        version = Version.of(text)
    except ValueError:
        return ""
    return f"{version.major}.{version.minor}"


def push_command(stack: Stack, *, name: str) -> str:
    """The command that builds the controller's image and publishes it. Muster knows no registry for a cluster
    that it did not make.
    """
    where = "" if stack.cluster.is_ours else " --repository HOST/PATH"
    return f"muster image push {name}{where}"


def published(stack: Stack, *, name: str) -> Artifacts:
    """The published artifacts of a stack, the controller's image included where the stack names it."""
    known = chosen(stack)
    _refuse_unsafe(known)
    images = {each: stack.images.reference(each, reference) for each, reference in known.images.items()}
    if stack.images.gang_admission is not None:
        # With the player in it where the stack's recorder forecasts (publish/build.py).
        images |= dict.fromkeys((GANG_IMAGE, RECORDER_IMAGE), stack.images.gang_admission)
    return Artifacts(
        source=f"stack {name}",
        charts={each: chart_of(entry, stack.charts) for each, entry in known.charts.items()},
        kustomize={},
        crds=dict(known.files),
        images=images,
        programs={},
        fix=f"`{push_command(stack, name=name)}` builds the controller's image, publishes it, and writes its "
        "digest into the stack file",
    )


def by_tag(stack: Stack) -> dict[str, str]:
    """Name -> reference of the other projects' images that a stack uses by tag. A tag can be moved."""
    images = chosen(stack).images
    named = {each: stack.images.reference(each, images[each]) for each in _used_images(stack)}
    return {each: reference for each, reference in named.items() if not has_digest(reference)}


def _used_images(stack: Stack) -> Iterator[str]:
    """The other projects' images that are set for a stack's pods; those in charts are the charts' own."""
    cluster, charts = stack.cluster, installed(stack)
    yield from (name for name in catalogue().entries if name in charts)
    if cluster.takes_autoscaler:
        yield names.AUTOSCALER
    if cluster.is_ours and any(pool.efa for pool in stack.pools):
        yield names.EFA_PLUGIN
    if gang.makes_pods(stack) or installation(stack) is not None:
        yield _PAUSE


def without_digest(stack: Stack) -> list[str]:
    """The charts that the stack installs without a recorded digest."""
    known = chosen(stack).charts
    return [name for name in installed(stack) if not wanted_digest(known[name], stack.charts)]


def _refuse_unsafe(known: Catalogue) -> None:
    """Raise ArtifactError when versions.toml names a version that is out of range."""
    versions = {name: entry.version for name, entry in known.charts.items()}
    toolkit = known.charts["gpu-operator"].toolkit
    found = minimum_version_rules(versions | ({"nvidia-container-toolkit": toolkit} if toolkit else {}))
    if found:
        listed = "\n".join(str(violation) for violation in found)
        raise ArtifactError(f"{VERSIONS_FILE.name} names versions that may not be installed:\n{listed}")


def chart_of(entry: ChartEntry, source: ChartSource) -> Chart:
    """The chart of an entry in a source. A file is compared with its digest, if one is recorded; a fetched
    archive is compared after the download (resolved.py).
    """
    if source.origin is ChartOrigin.FOLDER:
        return Chart(name=entry.name, reference=str(_in_folder(entry, source)))
    home = source.location if source.origin is ChartOrigin.MIRROR else entry.repository
    is_oci = home.startswith(OCI)
    return Chart(
        name=entry.name,
        reference=f"{home.rstrip('/')}/{entry.chart}" if is_oci else entry.chart,
        version=entry.version,
        repository=None if is_oci else home,
        digest=wanted_digest(entry, source),
    )


def wanted_digest(entry: ChartEntry, source: ChartSource) -> str:
    """The expected digest of the chart's archive; empty when none is recorded."""
    return source.digests.get(entry.name, entry.digest)


def installed(stack: Stack) -> tuple[str, ...]:
    """The published charts that the stack installs."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return ()
    of_gpus = () if installation(stack) is None else (Program.GPU_OPERATOR,)
    programs = (stack.scheduler.program, Program.KUBERAY, *of_gpus)
    of_nodes = (names.KARPENTER,) if stack.cluster.is_ours and stack.cluster.has_karpenter else ()
    return (*(each.value for each in programs if stack.installs(each)), *of_nodes)


def archive_name(entry: ChartEntry) -> str:
    """As `helm pull` writes it."""
    return f"{entry.chart}-{entry.version}.tgz"


def _in_folder(entry: ChartEntry, source: ChartSource) -> Path:
    folder = Path(source.location)
    path = (folder if folder.is_absolute() else paths.project() / folder) / archive_name(entry)
    wanted = wanted_digest(entry, source)
    if wanted and path.is_file():
        found = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        if found != wanted:
            raise ArtifactError(
                f"{path} has digest {found}, expected {wanted}: fetch it again, or correct "
                f"`muster:charts.digests.{entry.name}` if you know why it differs."
            )
    return path
