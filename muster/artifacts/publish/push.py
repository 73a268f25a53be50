"""Builds the controller's image and pushes it to a repository."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.image import Image, index_of, push
from muster.artifacts.oci.referrers import attach
from muster.artifacts.oci.registry import Registry, RegistryError, Repository, digest_of
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.publish.build import CREATED, build
from muster.local.build.progress import Board, shown

_PUSH_SECONDS: Final = 20.0


def publish(repository: Repository, *, has_player: bool = False) -> str:
    """Push the image of every processor with its bill of materials; the digest of the whole.

    UnreachableError before the build where the registry does not answer.
    """
    registry = Registry(repository, credentials_for(repository.host))
    _await_answer(registry)
    board = Board()
    with shown(board):
        images = build(board=board, has_player=has_player)
        board.add("push", _PUSH_SECONDS)
        with board.task("push"):
            return _push(images, registry)


def _await_answer(registry: Registry) -> None:
    # A registry may refuse to say whether a repository exists, and take a push to it: only silence counts.
    with suppress(RegistryError):
        registry.has_manifest("latest")


def _push(images: tuple[Image, ...], registry: Registry) -> str:
    # The tag is made of the content: pushing the same image again adds no second tag, and a tag never moves.
    tag = digest_of(index_of(images)).removeprefix("sha256:")[:12]
    digest = push(images, registry, tag=tag)
    for image in images:
        content = bill(image, created=CREATED)
        attach(registry, subject=image.manifest, content=content, media_type=MEDIA_TYPE)
    return digest
