"""Builds the controller's image and pushes it to a repository."""

from __future__ import annotations

from typing import Final

from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.image import Image, index_of, push
from muster.artifacts.oci.referrers import attach
from muster.artifacts.oci.registry import Registry, Repository, digest_of
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.publish.build import CREATED, build
from muster.local.build.progress import Board, shown

_PUSH_SECONDS: Final = 20.0


def publish(repository: Repository) -> str:
    """Push the image of every processor with its bill of materials; the digest of the whole."""
    board = Board()
    with shown(board):
        images = build(board=board)
        board.add("push", _PUSH_SECONDS)
        with board.task("push"):
            return _push(images, repository)


def _push(images: tuple[Image, ...], repository: Repository) -> str:
    # The tag is made of the content: pushing the same image again adds no second tag, and a tag never moves.
    tag = digest_of(index_of(images)).removeprefix("sha256:")[:12]
    registry = Registry(repository, credentials_for(repository.host))
    digest = push(images, registry, tag=tag)
    for image in images:
        content = bill(image, created=CREATED)
        attach(registry, subject=image.manifest, content=content, media_type=MEDIA_TYPE)
    return digest
