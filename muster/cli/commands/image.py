"""`muster image`: images and charts of a stack. Repositories are checked before anything is built."""

from collections.abc import Iterator
from pathlib import Path

import click

from muster import config
from muster.artifacts import resolved
from muster.artifacts.catalogue import catalogue
from muster.artifacts.oci.image import index_of
from muster.artifacts.oci.registry import Repository, Web, digest_of
from muster.artifacts.publish import build
from muster.artifacts.publish.bom import bill
from muster.artifacts.publish.build import (
    make_repository,
    pins,
    repository_of,
    with_charts,
    with_image,
    with_pins,
    write_digests,
)
from muster.cli.command import command
from muster.cli.options import DIRECTORY, STACK, existing_stack, stack_argument
from muster.cli.output import progress
from muster.config.document import ConfigError
from muster.errors import ExitCode
from muster.paths import stack_name


def _repository(stack: str, named: str | None) -> Repository:
    """The named repository, else the stack's own; MusterError where there is no such stack or it has none.

    A stack whose image goes to a named repository may still be incomplete: its file is only written to.
    """
    file = existing_stack(stack)
    return Repository.of(repository_of(config.load(file)) if named is None else named)


def _has_player(file: Path) -> bool:
    """Whether the stack's recorder forecasts; False for a stack that is not complete yet."""
    try:
        return config.load(file).recording.forecasts
    except ConfigError:
        return False


_BUILD_EXAMPLES = """
muster image build
muster image build gke-prod --boms boms/
"""


@command(examples=_BUILD_EXAMPLES)
@click.argument("stack", type=STACK, required=False, metavar="[STACK]")
@click.option("--repository", metavar="HOST/PATH", help="The repository to check instead of the stack's own.")
@click.option(
    "--boms", type=DIRECTORY, metavar="DIR", help="Write each image's bill of materials here (CycloneDX)."
)
def image_build(stack: str | None, *, repository: str | None, boms: Path | None) -> None:
    """Build the controller's image for amd64 and arm64.

    With STACK the stack file and its repository are checked first, so that a build is not followed by a push
    that cannot succeed. The image is the same for every stack, but that one with `forecasts` in
    `muster:recording` gets the program that forecasts.
    """
    if stack is not None:
        _repository(stack, repository)
    # Brings the image builder, which `--help` does not need.
    from muster.artifacts.publish.build import CREATED, build
    from muster.local.builder.progress import Board, shown

    board = Board()
    with progress(), shown(board):
        images = build(board=board, has_player=stack is not None and _has_player(existing_stack(stack)))
    for image in images:
        click.echo(f"{image.architecture:6} {image.digest}")
    click.echo(f"both   {digest_of(index_of(images))}")
    if boms is not None:
        boms.mkdir(parents=True, exist_ok=True)
        for image in images:
            file = boms / f"{image.digest.replace(':', '-')}.cdx.json"
            file.write_bytes(bill(image, created=CREATED))
            click.echo(f"{image.architecture:6} {file}")


_PUSH_EXAMPLES = """
muster image push gke-prod
muster image push lab --repository registry.example.com/muster/gang-admission
"""


@command(examples=_PUSH_EXAMPLES, codes={ExitCode.OUTSIDE: "The registry, the cloud or Pulumi failed."})
@stack_argument
@click.option(
    "--repository", metavar="HOST/PATH", help="Push here instead of to the repository of the stack."
)
def image_push(stack: str, *, repository: str | None) -> None:
    """Push the controller's image and write its digest into the stack file.

    For a stack with `forecasts` in `muster:recording` the image also holds the program that forecasts.

    The stack file and the repository are checked before anything is built. The stack's own repository is
    created where it is missing. A bill of materials is attached to the image of each processor. Pushed layers
    are kept after Ctrl-C; run the command again to continue.
    """
    file, place = existing_stack(stack), _repository(stack, repository)
    if repository is None:
        make_repository(stack_name(file))
    # Brings the image builder, which `--help` does not need.
    from muster.artifacts.publish.build import publish

    with progress():
        digest = publish(place, has_player=_has_player(file))
    write_digests(file, with_image, f"{place}@{digest}")
    click.echo(f"{place}@{digest}\nwritten to {file}: commit it")


@command(examples="muster image pin gke-prod")
@stack_argument
def image_pin(stack: str) -> None:
    """Write the digests of the other images and of the charts into the stack file.

    Those are the images and charts that the stack uses. The digests are read from the registries. Images
    come first, so that they are in the file even when a chart cannot be read.
    """
    file = existing_stack(stack)
    loaded, web = config.load(file), Web()
    images = _printed(pins(loaded, web=web))
    if images:
        write_digests(file, with_pins, images)
    found = _printed(build.digests(loaded, web=web))
    if found:
        write_digests(file, with_charts, found)
    if images or found:
        click.echo(f"written to {file}: commit it")
    else:
        click.echo("every image and chart has its digest")


def _printed(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """All of them, each printed as it is read."""
    kept: dict[str, str] = {}
    for name, digest in found:
        click.echo(f"{name}: {digest}")
        kept[name] = digest
    return kept


_CHARTS_EXAMPLES = """
muster image charts --to charts/
muster image charts gke-prod --to charts/
muster image charts --to charts/ --mirror oci://registry.example.com/charts
"""


@command(examples=_CHARTS_EXAMPLES)
@click.argument("stack", type=STACK, required=False, metavar="[STACK]")
@click.option("--to", "folder", type=DIRECTORY, required=True, metavar="DIR", help="Where to write them.")
@click.option("--mirror", metavar="oci://...", help="An OCI registry that holds all of them.")
def image_charts(*, folder: Path, mirror: str | None, stack: str | None) -> None:
    """Download the charts into a directory, for clusters without a registry.

    With STACK, in the versions that its `muster:versions` names.
    """
    known = catalogue() if stack is None else resolved.chosen(config.load(existing_stack(stack)))
    entries = list(known.charts.values())
    for name, digest in build.fetch(entries, folder, mirror=mirror):
        click.echo(f"{name}: {digest}")
    click.echo(
        f"set `muster:charts: {{path: {folder}}}`; `muster image pin STACK` writes the digests beside it"
    )
