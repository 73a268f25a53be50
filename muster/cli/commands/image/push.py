"""`muster image push`."""

from __future__ import annotations

import click

from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.image import index_of, push
from muster.artifacts.oci.referrers import attach
from muster.artifacts.oci.registry import Registry, digest_of
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.publish.build import CREATED, build
from muster.artifacts.publish.stackfile import write_image
from muster.artifacts.publish.target import make_repository
from muster.cli.command import command
from muster.cli.commands.image.repository import repository as repository_for
from muster.cli.options import existing_stack, stack_argument, stack_name
from muster.cli.output import progress
from muster.errors import ExitCode

_EXAMPLES = """
muster image push gke-prod
muster image push lab --repository registry.example.com/muster/gang-admission
"""


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "The registry, the cloud or Pulumi failed."})
@stack_argument
@click.option(
    "--repository", metavar="HOST/PATH", help="Push here instead of to the repository of the stack."
)
def cli(stack: str, *, repository: str | None) -> None:
    """Push the controller's image and write its digest into the stack file.

    The stack file and the repository are checked before anything is built. The stack's own repository is
    created where it is missing. A bill of materials is attached to the image of each processor. Pushed layers
    are kept after Ctrl-C; run the command again to continue.
    """
    file, place = existing_stack(stack), repository_for(stack, repository)
    if repository is None:
        make_repository(stack_name(file))
    with progress():
        images = build()
    # The tag is made of the content: pushing the same image again adds no second tag, and a tag never moves.
    tag = digest_of(index_of(images)).removeprefix("sha256:")[:12]
    registry = Registry(place, credentials_for(place.host))
    digest = push(images, registry, tag=tag)
    for image in images:
        content = bill(image, created=CREATED)
        attach(registry, subject=image.manifest, content=content, media_type=MEDIA_TYPE)
    write_image(file, f"{place}@{digest}")
    click.echo(f"{place}@{digest}\nwritten to {file}: commit it")
