"""`muster completion`."""

import click
from click.shell_completion import get_completion_class

from muster.cli.command import COMPLETION, command
from muster.errors import MusterError

_EXAMPLES = """
eval "$(muster completion bash)"
eval "$(muster completion zsh)"
muster completion fish > ~/.config/fish/completions/muster.fish
"""


@command(examples=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def cli(shell: str) -> None:
    """Print the completion script of a shell. It completes commands, options and the names of stacks."""
    found = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if found is None:
        raise MusterError(f"{shell}: no completion is known.", fix="use bash, zsh or fish.")
    click.echo(found(root, {}, "muster", COMPLETION).source())
