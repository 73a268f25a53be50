"""`muster adopt`."""

from pathlib import Path

import click

from muster.adopt.adoption import Adoption, adopt, adopt_files, format_report, to_json
from muster.adopt.cluster import fetch_cluster, to_label
from muster.cli.command import command
from muster.cli.manifests import load_objects
from muster.cli.options import FILE, context_option, json_option, kubeconfig_option, kubeconfig_path
from muster.cli.output import STDOUT, note_list, put, put_json
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import connect
from muster.kubernetes.kubeconfig import current_context

_EXAMPLES = """
muster adopt --context prod > stacks/Pulumi.prod.yaml
muster adopt --context prod --out stacks/Pulumi.prod.yaml
muster adopt --context prod --json
muster adopt --manifests queues/ --context prod --out stacks/Pulumi.prod.yaml
kustomize build . | muster adopt --manifests -
"""
_CODES = {
    ExitCode.DONE: "The stack file means what the cluster or the files have.",
    ExitCode.FOUND: "Something of them is not in the stack file, or would change.",
    ExitCode.OUTSIDE: "The cluster cannot be read, or has neither Kueue nor KAI.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@kubeconfig_option
@context_option
@click.option(
    "--manifests",
    metavar="SIDE",
    help="In place of a cluster: queue objects of Kueue or KAI in a folder, a file, - (standard input) or "
    "REVISION:PATH, and the Nodes among them. --context is then the cluster's name in the stack.",
)
@click.option(
    "--out", type=FILE, metavar="FILE", help="Where to write the stack file. Default: standard output."
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
def cli(
    *,
    kubeconfig: Path | None,
    context: str,
    manifests: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Write the stack file of a cluster that runs Kueue or KAI already, or of its manifests.

    Reads its queues, flavors, checks, shards, priorities, nodes and programs, and writes the stack that means
    the same, under the same names. The report lists what no stack can express, and what the first `pulumi up`
    would change. Only lists are read; nothing is written to the cluster.
    """
    if out is not None and out.exists() and not force:
        raise MusterError(f"{out} exists.", fix="name another file, or add --force.")
    if manifests is None:
        found = _adopt_cluster(kubeconfig, context)
    else:
        found = _adopt_files(manifests, kubeconfig, context)
    if out is not None:
        put(str(out), found.text)
    if as_json:
        put_json(to_json(found, file=str(out or "")))
    elif out is not None:
        put(STDOUT, format_report(found))
    else:
        put(STDOUT, found.text)
        click.echo(format_report(found), err=True, nl=False)
    return ExitCode.DONE if found.is_exact else ExitCode.FOUND


def _adopt_cluster(kubeconfig: Path | None, context: str) -> Adoption:
    path = kubeconfig_path(kubeconfig)
    api = connect(path, context=context, progress=note_list)
    name = context or current_context(path)
    cluster = {"name": to_label(name), "context": name}
    if kubeconfig is not None:
        cluster["kubeconfig"] = str(kubeconfig)
    return adopt(fetch_cluster(api), cluster)


def _adopt_files(side: str, kubeconfig: Path | None, context: str) -> Adoption:
    if kubeconfig is not None:
        raise MusterError("--manifests takes the place of a cluster.", fix="leave --kubeconfig out.")
    name, read = load_objects(side)
    context = context or name or "manifests"
    return adopt_files(read, {"name": to_label(context), "context": context})
