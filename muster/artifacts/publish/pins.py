"""Resolves the images that a stack names by tag to digests.

The registry's first answer is trusted: a digest guarantees that later pulls are the same, not that the
image is safe.
"""

from collections.abc import Iterator

from muster.artifacts import upstream
from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.registry import Registry, Repository, digest_of
from muster.artifacts.oci.web import Web
from muster.model.stack import Stack


def pins(stack: Stack, *, web: Web) -> Iterator[tuple[str, str]]:
    """(name, `repository@digest`) of each as it comes. RegistryError or UnreachableError where there is
    none.
    """
    for name, reference in upstream.by_tag(stack).items():
        place, _, tag = reference.rpartition(":")
        repository = Repository.of(place)
        manifest = Registry(repository, credentials_for(repository.host), web).manifest(tag)
        yield name, f"{place}@{digest_of(manifest)}"
