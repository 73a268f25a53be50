"""`muster schema`."""

import click

from muster.cli.command import command
from muster.cli.output import put_json
from muster.config.schema import part_schema, stack_schema

_EXAMPLES = """
muster schema > stacks/schema.json
muster schema --part > stacks/part.schema.json
check-jsonschema --schemafile stacks/schema.json stacks/Pulumi.*.yaml
"""


@command(examples=_EXAMPLES)
@click.option("--part", is_flag=True, help="Print the schema of files that extend another or are extended.")
def cli(*, part: bool) -> None:
    """Print the JSON Schema of a stack file, with which an editor completes and checks it.

    An editor with the YAML language server finds it through the first line of a stack file, which `muster
    init` writes: `# yaml-language-server: $schema=schema.json`. Only `muster validate` checks rules between
    keys.
    """
    put_json(part_schema() if part else stack_schema())
