"""The charts and images that their projects publish, from where a stack says.

Decides which reference each has: in its project's repository, in a mirror, or in a folder. Leaves the table
to versions.toml and fetching to Helm and the kubelets.
"""

import hashlib
from pathlib import Path
from typing import Final

from muster import paths
from muster.artifacts import resolved
from muster.artifacts.catalogue import Catalogue, ChartEntry, catalogue
from muster.artifacts.resolved import ArtifactError, Artifacts
from muster.model.charts import OCI, Chart, ChartOrigin, ChartSource, has_digest
from muster.model.gpu_operator import installation
from muster.model.minimum_versions import floor_rules
from muster.model.stack import ArtifactSource, GangMode, Scheduler, Stack
from muster.paths import VERSIONS_FILE

GANG_IMAGE: Final = "gang-admission"


def of(stack: Stack, *, name: str) -> Artifacts:
    """The artifacts of the stack called `name`: `muster:artifacts` decides between both kinds.

    A stack that needs our image and names none is refused here, before anything of it is made.
    """
    if stack.artifacts is ArtifactSource.LOCAL:
        return resolved.load()
    found = published(stack, name=name)
    if stack.gang_admission.mode is GangMode.MUSTER:
        found.image(GANG_IMAGE)
    return found


def published(stack: Stack, *, name: str) -> Artifacts:
    """What a stack takes from elsewhere, our image included where it is named."""
    known = catalogue()
    _refuse_unsafe(known)
    images = {each: stack.images.reference(each, reference) for each, reference in known.images.items()}
    if stack.images.gang_admission is not None:
        images[GANG_IMAGE] = stack.images.gang_admission
    return Artifacts(
        source=f"stack {name}",
        charts={each: chart_of(entry, stack.charts) for each, entry in known.charts.items()},
        kustomize={},
        crds=dict(known.files),
        images=images,
        programs={},
        fix=f"`make image push STACK={name}` publishes ours; versions.toml lists the others",
    )


def by_tag(stack: Stack) -> dict[str, str]:
    """The images of others that a stack takes by a tag, which can be moved: name -> reference."""
    named = {each: stack.images.reference(each, theirs) for each, theirs in catalogue().images.items()}
    return {each: reference for each, reference in named.items() if not has_digest(reference)}


def without_digest(stack: Stack) -> list[str]:
    """The charts that the stack installs and whose archives nobody has written the digest of."""
    known = catalogue().charts
    return [name for name in installed(stack) if not wanted_digest(known[name], stack.charts)]


def _refuse_unsafe(known: Catalogue) -> None:
    """Versions that may not be installed, whoever wrote them into the table."""
    versions = {name: entry.version for name, entry in known.charts.items()}
    found = floor_rules(versions | {"nvidia-container-toolkit": known.charts["gpu-operator"].toolkit})
    if found:
        told = "\n".join(str(violation) for violation in found)
        raise ArtifactError(f"{VERSIONS_FILE.name} names versions that may not be installed:\n{told}")


def chart_of(entry: ChartEntry, source: ChartSource) -> Chart:
    """The chart of an entry in a source. A file is compared with its digest where one is known; what is
    fetched is compared when it comes (held.py).
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
    """The digest that its archive has to have; empty where nobody wrote one down."""
    return source.digests.get(entry.name, entry.digest)


def installed(stack: Stack) -> tuple[str, ...]:
    """The published charts that the stack installs."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return ()
    scheduler = "kai" if stack.scheduler is Scheduler.KAI else "kueue"
    of_gpus = () if installation(stack) is None else ("gpu-operator",)
    return (scheduler, "kuberay", *of_gpus)


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
                f"{path} is {found}, but should be {wanted}: fetch it again, or correct "
                f"`muster:charts.digests.{entry.name}` if you know why it differs."
            )
    return path
