"""`muster local story`."""

import contextlib
import json
import os
from pathlib import Path

import click
from click.core import ParameterSource

from muster.cli.command import command
from muster.cli.local_cluster import living
from muster.cli.options import json_option, kubeconfig_option, name_option
from muster.errors import ExitCode, MusterError
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.local.demo.cluster import Cluster
from muster.local.demo.follower import Follower, StoryError
from muster.local.demo.scenarios import STORIES, VICTIMS, Images
from muster.local.demo.screen import Screen

_EXAMPLES = """
muster local story gang
muster local story priority --victim raycluster
muster local story batch --name second --json
muster local story priorities
"""
_CODES = {
    ExitCode.DONE: "The job did what the example shows.",
    ExitCode.FOUND: "It did not; the last line names the cause.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("story", type=click.Choice(list(STORIES)), metavar="|".join(STORIES))
@click.option(
    "--victim",
    type=click.Choice(list(VICTIMS)),
    default="rayjob",
    show_default=True,
    help="What is preempted in `priority`.",
)
@click.option(
    "--timeout", type=float, default=900, show_default=True, metavar="SECONDS", help="For the whole example."
)
@json_option
@click.option("--delete", is_flag=True, help="Delete the finished objects too.")
@click.option("--keep", is_flag=True, help="Keep the objects of a failed run for inspection.")
@name_option
@kubeconfig_option
@click.option("--ray-image", default="", metavar="IMAGE", help="Default: the local cluster's.")
@click.option("--python-image", default="", metavar="IMAGE", help="The image for `batch`.")
def cli(
    story: str,
    *,
    victim: str,
    timeout: float,
    as_json: bool,
    delete: bool,
    keep: bool,
    name: str,
    kubeconfig: Path | None,
    ray_image: str,
    python_image: str,
) -> ExitCode:
    """Run an example job on a cluster and follow what happens to it.

    The cluster is that of --kubeconfig, else that of --name, else that of KUBECONFIG, else the local cluster
    `default`. With --json every event is one JSON object on its own line.
    """
    artifacts = os.environ.get("MUSTER_ARTIFACTS")
    if kubeconfig is None and (_is_named() or not os.environ.get("KUBECONFIG")):
        local = living(name)
        kubeconfig, artifacts = local.kubeconfig, str(local.artifacts)
    images = _images(story, Images(ray_image, python_image), artifacts)
    chosen = STORIES[story]
    screen = Screen(as_json=as_json)
    try:
        cluster = Cluster(str(kubeconfig) if kubeconfig else None, say=screen.say)
        follower = Follower(
            cluster, screen, namespace=chosen.namespace, others=chosen.others, timeout=timeout
        )
    except UnreachableError as error:
        screen.end(reason=str(error))
        return ExitCode.OUTSIDE
    try:
        chosen.play(follower, images, victim)
    except KeyboardInterrupt:
        _clean_up(follower, screen)
        screen.end(reason="interrupted")
        raise
    except BrokenPipeError:  # The reader of the output has gone, such as `head`.
        with contextlib.suppress(UnreachableError, ApiError):
            follower.clean_up()
        raise
    except (StoryError, UnreachableError, ApiError) as error:
        if not keep:
            _clean_up(follower, screen)
        screen.end(reason=str(error))
        return ExitCode.FOUND
    if delete:
        _clean_up(follower, screen)
    screen.end(reason=None)
    return ExitCode.DONE


def _is_named() -> bool:
    source = click.get_current_context().get_parameter_source("name")
    return source is not ParameterSource.DEFAULT


def _clean_up(follower: Follower, screen: Screen) -> None:
    screen.say("deleting what this example made")
    try:
        follower.clean_up()
    except (UnreachableError, ApiError) as error:
        screen.say(f"left behind in namespace {follower.namespace}: {error}")


def _images(story: str, given: Images, path: str | None) -> Images:
    """Those of the options, else those of the local cluster's artifacts file."""
    built: dict[str, str] = {}
    if path:
        try:
            built = json.loads(Path(path).read_text())["images"]
        except (OSError, ValueError, KeyError) as error:
            fix = "unset MUSTER_ARTIFACTS and give --ray-image and --python-image."
            raise MusterError(f"{path}: {error!r}", fix=fix) from None
    images = Images(given.ray or built.get("ray", ""), given.python or built.get("python", ""))
    name, image = ("python", images.python) if story == "batch" else ("ray", images.ray)
    if not image:
        fix = f"give --{name}-image, or a local cluster by --name."
        raise MusterError(f"no {name} image is known.", fix=fix)
    return images


cli.add_section("Examples to run", [f"{name:10} {story.summary}" for name, story in STORIES.items()])
