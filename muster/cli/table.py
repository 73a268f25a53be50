"""Every command with its one-line summary, in the order in which `--help` lists them.

The table is all that `muster --help` reads: the module of a command is imported when the command is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_COMMANDS: Final = "muster.cli.commands"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command, or a group of commands."""

    summary: str
    commands: Mapping[str, Entry] = field(default_factory=dict)
    default: str = ""
    """The command of a group that runs where the group is followed by options alone."""
    extras: tuple[str, ...] = ()
    """The extras of the wheel that the command needs, or the commands of the group, where the first missing
    package does not tell.
    """
    module: str = ""
    """The module in which the command, or those of the group, stand beside others by their full names."""


TABLE: Final[Mapping[str, Entry]] = {
    "init": Entry(
        "Write a project of your own, or show what newer templates would change in it.", module="project"
    ),
    "new": Entry("Write one more stack file into a project.", module="project"),
    "validate": Entry("Check stack files, offline.", module="stack"),
    "check": Entry(
        "Check offline whether a team's job would be admitted, and where it could run.", extras=("check",)
    ),
    "show": Entry("Print a stack with what it extends, and where each value is written.", module="stack"),
    "render": Entry(
        "Write the queue objects of a stack as YAML, for any tool that applies it.", module="stack"
    ),
    "explain": Entry("Explain a key of the stack file: values, default, example.", module="reference"),
    "demo": Entry("Show a report, a plan and a reason on data of the package."),
    "machines": Entry(
        "List the machines that a stack may name: GPU, memory, price, cloud.", module="reference"
    ),
    "schema": Entry("Print the JSON Schema of a stack file, for editors.", module="reference"),
    "diff": Entry("Show what a change of a stack means: quota, preemption, pools, cost."),
    "usage": Entry("Show what teams used, borrowed and wasted, by hours and cost."),
    "plan": Entry("Find the smallest change of quotas with which a recording meets goals."),
    "what-if": Entry("Replay running and waiting work against a changed stack in a real Kueue or KAI."),
    "adopt": Entry("Write the stack file of a cluster that runs Kueue or KAI already."),
    "why": Entry(
        "Explain what a job is waiting for, and forecast when it starts.", extras=("check", "local")
    ),
    "submit": Entry("Check a job, create it for a team, and follow it.", extras=("check",)),
    "logs": Entry("Print the logs of a job's pods.", module="live"),
    "top": Entry("Show queues, jobs and nodes of a cluster as they change.", module="live"),
    "snapshot": Entry("Record the queues of a cluster and their Workloads as JSON.", module="live"),
    "record": Entry(
        "Record the jobs of a cluster, for a replay under other quotas.",
        {
            "start": Entry(
                "Record arrivals, runs and evictions of a cluster's jobs; the default of `muster record`.",
                extras=("controller",),
            ),
            "show": Entry("Show a recording by team: jobs, GPU-hours, waits, evictions."),
            "import": Entry("Make a recording from a CSV file, or from Slurm's sacct."),
        },
        default="start",
        module="record",
    ),
    "doctor": Entry("Check everything that a first `pulumi up` needs, and change nothing."),
    "image": Entry(
        "Build, publish and pin the images and charts of a stack.",
        {
            "build": Entry("Build the controller's image for amd64 and arm64."),
            "push": Entry("Push the controller's image and write its digest into the stack file."),
            "pin": Entry("Write the digests of the other images and of the charts into the stack file."),
            "charts": Entry("Download the charts into a directory, for clusters without a registry."),
        },
        module="image",
    ),
    "backend": Entry(
        "Where a stack's state and secrets are kept.",
        {"create": Entry("Create the bucket and the key for a stack's state and secrets.")},
        module="doctor",
    ),
    "local": Entry(
        "A real Kubernetes cluster on this machine, with a simulated GPU cloud.",
        {
            "up": Entry("Get what is missing and start the local cluster.", module="local_up"),
            "down": Entry("Stop the local cluster and delete everything in it."),
            "status": Entry("Show whether the local cluster is healthy."),
            "logs": Entry("Show the log of one process; without a name, list the processes."),
            "env": Entry("Print shell lines that point pulumi and kubectl at the local cluster."),
            "kubeconfig": Entry("Print the kubeconfig of the local cluster."),
            "fault": Entry("Break a pool of the simulated cloud, or a node.", module="local_demo"),
            "faults": Entry("List or clear the faults of the simulated cloud.", module="local_demo"),
            "capacity": Entry(
                "Set how many nodes of a pool the simulated cloud has in stock.", module="local_demo"
            ),
            "story": Entry(
                "Run an example job on a cluster and follow what happens to it.", module="local_demo"
            ),
            "demo": Entry(
                "Start the local cluster, deploy stack `local`, run the gang example.", module="local_demo"
            ),
            "build": Entry(
                "Get the programs and images of the local cluster, and start nothing.",
                module="local_up",
            ),
            "bundle": Entry(
                "Carry a built cache to another machine.",
                {
                    "export": Entry("Write the built cache into one file."),
                    "import": Entry("Put the programs and images of a bundle into the cache."),
                },
                module="local_up",
            ),
            "pin-programs": Entry(
                "Record the digests of released programs in versions.toml.", module="local_up"
            ),
            "doctor": Entry("Check whether this machine can run the local cluster."),
        },
        extras=("local",),
        module="local",
    ),
    "ci": Entry(
        "Helpers for CI pipelines.",
        {
            "comment": Entry("Put a report on the pull request or merge request of this job."),
            "pins": Entry("Find actions and images in CI files that are not pinned by a digest."),
        },
        module="ci",
    ),
    "bench": Entry("Measure gang admission beside Kueue's own check; needs a checkout."),
    "completion": Entry("Print the completion script of a shell.", module="reference"),
}


def implementation_of(path: tuple[str, ...]) -> tuple[str, str]:
    """Module and name of the function: `cli` of `commands.why`, and `local_up` of `commands.local`."""
    module, entries = "", TABLE
    for word in path:
        module, entries = entries[word].module or module, entries[word].commands
    function = "_".join(path).replace("-", "_") if module else "cli"
    return f"{_COMMANDS}.{module or path[0].replace('-', '')}", function


def walk(
    table: Mapping[str, Entry] = TABLE, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Every command and every group, with the words that name it."""
    for name, entry in table.items():
        yield (*above, name), entry
        yield from walk(entry.commands, (*above, name))
