"""`muster local demo`, and what it is made of: the stories, and the faults of the simulated cloud."""

import contextlib
import json
import os
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from muster.cli.command import command
from muster.cli.commands.local import kubeconfig_of, living
from muster.cli.options import (
    MemberType,
    autoscaler_option,
    json_option,
    kubeconfig_option,
    name_option,
    programs_option,
    scheduler_option,
)
from muster.errors import ExitCode, MusterError
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.local.demo.cluster import Cluster
from muster.local.demo.events import Screen
from muster.local.demo.follower import Follower, StoryError
from muster.local.demo.scenarios import STORIES, VICTIMS, Images
from muster.local.demo.tour import tour
from muster.local.karpenter import Autoscaler
from muster.local.quantities import seconds
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.script import (
    MEANING,
    Fault,
    NodeSign,
    add_fault,
    break_node,
    clear_faults,
    read_faults,
    set_stock,
)
from muster.model.stack import Scheduler

_DEMO_EXAMPLES = """
muster local demo
muster local demo --scheduler kai
muster local demo --scheduler kai --story inference
muster local demo --autoscaler karpenter
make up
"""


@command(
    examples=_DEMO_EXAMPLES,
    codes={ExitCode.FOUND: "A step failed; its own exit code is returned."},
)
@name_option
@programs_option
@scheduler_option
@autoscaler_option
@click.option(
    "--story",
    type=click.Choice(list(STORIES)),
    help="The example to run (see `muster local story --help`). Default: the first of the stack.",
)
def local_demo(
    name: str, *, programs: str | None, scheduler: Scheduler, autoscaler: Autoscaler, story: str | None
) -> None:
    """Start the local cluster, deploy stack `local` with Pulumi, and run the gang example on it.

    With --scheduler kai the stack is `local-kai`, and the example a RayCluster of five pods. With
    --autoscaler karpenter the stack is `local-karpenter`, and the example a gang of which the cloud has half
    in stock. Every step is a command that a user could type. The local cluster is left running.
    """
    tour(name, programs=programs, scheduler=scheduler, autoscaler=autoscaler, story=story)


_STORY_EXAMPLES = """
muster local story gang
muster local story priority --victim raycluster
muster local story batch --name second --json
muster local story priorities
"""
_CODES = {
    ExitCode.DONE: "The job did what the example shows.",
    ExitCode.FOUND: "It did not; the last line names the cause.",
}


@command(examples=_STORY_EXAMPLES, codes=_CODES)
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
def local_story(
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


local_story.add_section("Examples to run", [f"{name:10} {story.summary}" for name, story in STORIES.items()])


_FAULT_EXAMPLES = """
muster local fault h100 stock-out --for 5m
muster local fault l4 delay --by 90s --count 2
muster local fault '*' silence --after 10s
muster local fault node NAME --xid 79
muster local fault node NAME --sign black-hole
"""
_NODE: Final = "node"
_KINDS: Final = MemberType(FaultKind)


class Duration(click.ParamType[str]):
    """Such as `60s`; stays text, which is what the simulated cloud reads."""

    name = "duration"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


@command(examples=_FAULT_EXAMPLES)
@click.argument("pool")
@click.argument("kind", metavar="KIND")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="Hit this many requests, then no more."
)
@click.option(
    "--for", "duration", type=Duration(), metavar="TIME", help="How long, such as 60s, in the cloud's time."
)
@click.option("--after", type=Duration(), metavar="TIME", help="Begin only after this time.")
@click.option("--by", type=Duration(), metavar="TIME", help="For `delay` and `stagger`: how much later.")
@click.option(
    "--missing", type=click.IntRange(min=1), metavar="N", help="For `partial`: how many nodes never come."
)
@click.option("--wait", is_flag=True, help="For `stock-out`: requests wait forever instead of failing.")
@click.option("--xid", type=click.IntRange(min=1), metavar="N", help="For a node: NVIDIA's error N.")
@click.option(
    "--sign",
    type=MemberType(NodeSign),
    help="For a node: what shows that it is broken; none: no more.",
)
@name_option
@kubeconfig_option
def local_fault(
    pool: str,
    *,
    kind: str,
    count: int | None,
    duration: str | None,
    after: str | None,
    by: str | None,
    missing: int | None,
    wait: bool,
    xid: int | None,
    sign: NodeSign | None,
    name: str,
    kubeconfig: Path | None,
) -> None:
    """Break a pool of the simulated cloud, or a node.

    POOL is the name of a pool, or '*' for every one. With POOL `node`, KIND is the name of a node, which gets
    a sign by --xid or --sign.
    """
    if xid is not None or sign is not None:
        if pool != _NODE:
            raise MusterError(f"{pool}: --xid and --sign break a node.", fix="write `node NAME` before them.")
        break_node(kubeconfig_of(name, kubeconfig), kind, sign or NodeSign.XID, xid=xid or 79)
        click.echo(f"node {kind}: {sign or f'xid {xid}'}")
        return
    fault = Fault(
        pool=pool,
        kind=_KINDS.convert(kind, None, click.get_current_context()),
        count=count,
        duration=duration,
        after=after,
        by=by,
        missing=missing,
        waits=wait,
    )
    entry, text = add_fault(kubeconfig_of(name, kubeconfig), fault)
    click.echo(f"{entry}: {text}")


local_fault.add_section("Kinds", [f"{kind:10} {meaning}" for kind, meaning in MEANING.items()])


@command(examples="muster local faults list\nmuster local faults clear")
@click.argument("action", type=click.Choice(["list", "clear"]))
@name_option
@kubeconfig_option
def local_faults(action: str, *, name: str, kubeconfig: Path | None) -> None:
    """List or clear the faults of the simulated cloud."""
    cluster = kubeconfig_of(name, kubeconfig)
    if action == "clear":
        clear_faults(cluster)
        return
    for entry, text in sorted(read_faults(cluster).items()):
        click.echo(f"{entry}: {text}")


@command(examples="muster local capacity h100 0\nmuster local capacity h100 4")
@click.argument("pool")
@click.argument("nodes", type=click.IntRange(min=0))
@name_option
@kubeconfig_option
def local_capacity(pool: str, *, nodes: int, name: str, kubeconfig: Path | None) -> None:
    """Set how many nodes of a pool the simulated cloud has in stock."""
    set_stock(kubeconfig_of(name, kubeconfig), pool, nodes)
    click.echo(f"{pool}: {nodes} in stock")
