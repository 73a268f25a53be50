"""Runs an example on the current cluster and tells what happens to it.

    muster local story gang
    muster local story priority --victim raycluster
    muster local story batch --json

Exit codes: 0 the story ended well, 1 it did not (the last line says why), 2 wrong use, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx2

from muster.local.demo.cluster import Cluster, UnreachableError
from muster.local.demo.follower import Follower, StoryError
from muster.local.demo.scenarios import STORIES, VICTIMS, Images
from muster.local.demo.screen import Screen


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    images = _images(options)
    story = STORIES[options.story]
    screen = Screen(as_json=options.json)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        follower = Follower(
            Cluster(options.kubeconfig), screen, namespace=story.namespace, timeout=options.timeout
        )
    except UnreachableError as error:
        screen.end(reason=str(error))
        return 1
    try:
        story.play(follower, images, options.victim)
    except KeyboardInterrupt:
        _clean_up(follower, screen)
        screen.end(reason="interrupted")
        return 130
    except (StoryError, UnreachableError, httpx2.HTTPError) as error:
        if not options.keep:
            _clean_up(follower, screen)
        screen.end(reason=str(error))
        return 1
    if options.delete:
        _clean_up(follower, screen)
    screen.end(reason=None)
    return 0


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _clean_up(follower: Follower, screen: Screen) -> None:
    screen.say("deleting what this story made")
    try:
        follower.clean_up()
    except (UnreachableError, httpx2.HTTPError) as error:
        screen.say(f"left behind in namespace {follower.namespace}: {error}")


def _images(options: argparse.Namespace) -> Images:
    """From the command line, else from the local plane's artifacts file."""
    path = os.environ.get("MUSTER_ARTIFACTS")
    built: dict[str, str] = {}
    if path:
        try:
            built = json.loads(Path(path).read_text())["images"]
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"MUSTER_ARTIFACTS={path}: {error!r}; unset it and give --ray-image and --python-image")
    images = Images(
        options.ray_image or built.get("ray", ""), options.python_image or built.get("python", "")
    )
    wanted = ("python", images.python) if options.story == "batch" else ("ray", images.ray)
    if not wanted[1]:
        sys.exit(
            f"no image: give --{wanted[0]}-image, or set MUSTER_ARTIFACTS "
            '(on the local plane: eval "$(muster local env)")'
        )
    return images


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muster local story",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Stories:\n" + "\n".join(f"  {name:<9} {story.summary}" for name, story in STORIES.items()),
    )
    parser.add_argument("story", choices=STORIES, metavar="STORY", help=", ".join(STORIES))
    parser.add_argument("--victim", choices=VICTIMS, default="rayjob", help="who is preempted in `priority`")
    parser.add_argument(
        "--timeout", type=float, default=600, metavar="SECONDS", help="for the whole story (600)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--delete", action="store_true", help="delete the finished objects too")
    parser.add_argument("--keep", action="store_true", help="leave the objects of a failed story for a look")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: KUBECONFIG, then ~/.kube/config")
    parser.add_argument(
        "--ray-image", metavar="IMAGE", help="default: the local plane's, from MUSTER_ARTIFACTS"
    )
    parser.add_argument("--python-image", metavar="IMAGE", help="for `batch`")
    return parser


if __name__ == "__main__":
    sys.exit(main())
