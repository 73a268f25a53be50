"""Whether the controller's image and the charts exist where the stack says.

A registry is only asked whether it has a digest or a version. Nothing is downloaded.
"""

from collections.abc import Iterator
from pathlib import Path

from muster.artifacts import upstream
from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.registry import Registry, RegistryError, Repository
from muster.artifacts.oci.web import UnreachableError, Web
from muster.artifacts.resolved import ArtifactError
from muster.cloud.doctor.findings import Finding, State, failed, passed
from muster.model.charts import OCI, Chart
from muster.model.stack import ArtifactSource, GangMode, Stack


def check_image(stack: Stack, *, name: str, web: Web) -> Iterator[Finding]:
    """The image of the gang-admission controller."""
    if stack.artifacts is ArtifactSource.LOCAL or stack.gang_admission.mode is not GangMode.MUSTER:
        return
    push = upstream.push_command(stack, name=name)
    reference = stack.images.gang_admission
    if reference is None:
        yield failed("image", "the stack has no digest of the controller's image", push)
        return
    place, _, digest = reference.partition("@")
    repository = Repository.of(place)
    try:
        there = Registry(repository, credentials_for(repository.host), web).has_manifest(digest)
    except (RegistryError, UnreachableError) as error:
        yield failed("image", error.message, "log in to the registry, or push again: " + push)
        return
    yield passed("image", reference) if there else failed("image", f"{reference} does not exist", push)


def check_charts(stack: Stack, *, name: str, web: Web) -> Iterator[Finding]:
    """Every chart that the stack installs."""
    fix = "set a mirror (`muster:charts.mirror`) or download the charts (`muster image charts --to charts`)"
    for chart in (upstream.published(stack, name=name).charts[each] for each in upstream.installed(stack)):
        try:
            problem = _find_problem(chart, web)
        except (RegistryError, UnreachableError, ArtifactError) as error:
            problem = error.message
        yield (
            failed("charts", f"{chart.name}: {problem}", fix)
            if problem
            else passed("charts", _format_chart(chart))
        )


def check_digests(stack: Stack, *, name: str) -> Iterator[Finding]:
    """Third-party images that are named by tag, and charts without a digest. Their content can change."""
    if stack.artifacts is ArtifactSource.LOCAL:
        return
    images, charts = sorted(upstream.by_tag(stack)), sorted(upstream.without_digest(stack))
    fix = f"muster image pin {name}, and commit it"
    if images:
        listed = ", ".join(images)
        message = f"images named by a tag, which can be moved (policy images-by-digest): {listed}"
        yield Finding("digests", State.UNKNOWN, message, fix)
    if charts:
        message = f"charts without a digest, whose download cannot be verified: {', '.join(charts)}"
        yield Finding("digests", State.UNKNOWN, message, fix)
    if not images and not charts:
        yield passed("digests", "every image and chart of the stack has a digest")


def _find_problem(chart: Chart, web: Web) -> str:
    """What is wrong with the chart; empty when it exists."""
    if chart.reference.startswith(OCI):
        repository = Repository.of(chart.reference)
        registry = Registry(repository, credentials_for(repository.host), web)
        return "" if registry.has_manifest(chart.version or "") else f"{repository} has no {chart.version}"
    if chart.repository is None:
        return "" if Path(chart.reference).is_file() else f"{chart.reference} does not exist"
    url = f"{chart.repository.rstrip('/')}/index.yaml"
    answer = web.call("GET", url)
    if answer.status != 200:
        return f"{url} answers {answer.status}"
    listed = f"{chart.reference}-{chart.version}.tgz".encode() in answer.body
    return "" if listed else f"{chart.repository} lists no {chart.reference} {chart.version}"


def _format_chart(chart: Chart) -> str:
    return " ".join(part for part in (chart.reference, chart.version, chart.repository) if part)
