"""`muster local down`."""

import click

from muster.cli.command import command
from muster.cli.options import name_option
from muster.local.build.cache import cache_root
from muster.local.cluster import teardown
from muster.local.cluster.local_cluster import existing, named


@command(examples="muster local down\nmuster local down --name second")
@name_option
def cli(name: str) -> None:
    """Stop the local cluster and delete everything in it.

    The cache of built programs and images is kept, so that the next `muster local up` takes seconds.
    """
    found = existing(name)
    cluster, record = found if found is not None else (named(name, index=0), None)
    if found is None and not cluster.run.exists() and not cluster.state.exists():
        click.echo(f"there is no local cluster {name}")
        return
    teardown.down(cluster, record)
    click.echo(f"local cluster {cluster.name} is gone; the cache is kept in {cache_root()}")
