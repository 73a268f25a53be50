"""muster image build | push | pin | charts

build   the controller's image for amd64 and arm64
push    the image to the stack's repository, with a bill of materials attached to each processor's; its digest
        goes into the stack file
pin     asks for the digests of the others' images and of the charts, and writes them into the stack file
charts  the charts of versions.toml into a folder, for clusters that reach no registry

Exit codes: 0 done, 1 not done (the message says why and what to do), 2 wrong command line, 130
stopped by Ctrl-C.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from muster import config, paths
from muster.artifacts.catalogue import catalogue
from muster.artifacts.oci.credentials import credentials_for
from muster.artifacts.oci.image import index_of, push
from muster.artifacts.oci.referrers import attach
from muster.artifacts.oci.registry import Registry, RegistryError, Repository, digest_of
from muster.artifacts.oci.web import Unreachable, Web
from muster.artifacts.publish import charts as fetching
from muster.artifacts.publish import target
from muster.artifacts.publish.bom import MEDIA_TYPE, bill
from muster.artifacts.publish.build import CREATED, build
from muster.artifacts.publish.pins import pins
from muster.artifacts.publish.stackfile import Unwritable, write_charts, write_image, write_pins
from muster.local.errors import LocalClusterError


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        commands = {"build": _build, "push": _push, "pin": _pin, "charts": _charts}
        commands[chosen.command](chosen)
    except (
        *(LocalClusterError, RegistryError, Unreachable, Unwritable, target.NoTarget, OSError),
        config.ConfigError,
    ) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was pushed stays, the next run goes on from there", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="muster image", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument(
        "--boms", type=Path, metavar="FOLDER", help="write each image's bill of materials here (CycloneDX)"
    )
    pushing = commands.add_parser("push")
    pushing.add_argument("--stack", required=True)
    pushing.add_argument("--repository", help="host/path, instead of the one that the stack makes")
    pinning = commands.add_parser("pin")
    pinning.add_argument("--stack", required=True)
    fetched = commands.add_parser("charts")
    fetched.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    fetched.add_argument("--mirror", metavar="oci://...", help="an OCI registry that holds them all")
    return parser


def _build(chosen: argparse.Namespace) -> None:
    images = build()
    for image in images:
        print(f"{image.architecture:6} {image.digest}")
    print(f"both   {digest_of(index_of(images))}")
    if chosen.boms is not None:
        chosen.boms.mkdir(parents=True, exist_ok=True)
        for image in images:
            name = f"{image.digest.replace(':', '-')}.cdx.json"
            (chosen.boms / name).write_bytes(bill(image, created=CREATED))
            print(f"{image.architecture:6} {chosen.boms / name}")


def _push(chosen: argparse.Namespace) -> None:
    file = _stack_file(chosen.stack)
    named = chosen.repository
    if named is None:
        named = target.repository_of(config.load(file))
        target.make_repository(chosen.stack)
    repository = Repository.of(named)
    images = build()
    # A tag that says the content: pushing the same image again is no second tag, and a tag never moves.
    tag = digest_of(index_of(images)).removeprefix("sha256:")[:12]
    registry = Registry(repository, credentials_for(repository.host))
    digest = push(images, registry, tag=tag)
    for image in images:
        content = bill(image, created=CREATED)
        attach(registry, subject=image.manifest, content=content, media_type=MEDIA_TYPE)
    write_image(file, f"{repository}@{digest}")
    print(f"{repository}@{digest}\nwritten to {file.relative_to(paths.project())}: commit it")


def _pin(chosen: argparse.Namespace) -> None:
    """Images first, then charts: what was found stands in the file whatever becomes of the rest."""
    file = _stack_file(chosen.stack)
    stack, web = config.load(file), Web()
    images = _told(pins(stack, web=web))
    if images:
        write_pins(file, images)
    charts = _told(fetching.digests(stack, web=web))
    if charts:
        write_charts(file, charts)
    if images or charts:
        print(f"written to {file.relative_to(paths.project())}: commit it")
    else:
        print("every image and chart has its digest")


def _told(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """All of them, each printed as it comes."""
    kept: dict[str, str] = {}
    for name, digest in found:
        print(f"{name}: {digest}", flush=True)
        kept[name] = digest
    return kept


def _stack_file(name: str) -> Path:
    return paths.stack_file(name)


def _charts(chosen: argparse.Namespace) -> None:
    entries = list(catalogue().charts.values())
    for name, digest in fetching.fetch(entries, chosen.to, mirror=chosen.mirror):
        print(f"{name}: {digest}", flush=True)
    print(f"set `muster:charts: {{path: {chosen.to}}}`; `make pin STACK=...` writes the digests beside it")


if __name__ == "__main__":
    sys.exit(main())
