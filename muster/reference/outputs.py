"""The page of a stack's outputs, from their declaration in `muster.components`."""

from __future__ import annotations

from typing import Final

from muster.components import outputs
from muster.components.outputs import Outputs
from muster.reference.markdown import WRITTEN, code, item

_HEAD: Final = f"""\
# All outputs of a stack

{WRITTEN}

Read an output with `pulumi stack output -s STACK [NAME] [--json]`, or with a StackReference. Names and shapes
are stable: an output changes only by a new name. [Submit a job](../submit.md) uses `teams`. `→` is a mapping
from the first to the second.
"""


def page() -> str:
    """The whole page."""
    sections: dict[str, Outputs] = {
        "Every stack": outputs.STACK,
        "A team in `teams`": outputs.TEAM,
        "Stacks that make their cluster: `gke`, `eks`": outputs.MADE_CLUSTER,
        **{f"`cluster` on `{provider}`": each for provider, each in outputs.CLUSTER.items()},
    }
    parts = [_HEAD]
    for title, listed in sections.items():
        lines = (
            item(code(name), ("secret" if each.is_secret else "",), each.meaning)
            for name, each in listed.items()
        )
        parts += [f"## {title}\n", "\n".join(lines), ""]
    return "\n".join(parts)
