"""Registers what a JSON file says, for tests of the stand-ins themselves.

[{"name", "type", "inputs", "after": [names], "protect", "ignore": [paths]}]; a value {"of": name}
is that resource's id.
"""

import json
import os
from pathlib import Path
from typing import Any

import pulumi

_made: dict[str, pulumi.CustomResource] = {}


class Anything(pulumi.CustomResource):
    """A resource of any type, its inputs as the engine gets them."""

    def __init__(self, type_: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        wanted = [each for each in ("selfLink", "arn", "email", "member") if each not in inputs]
        super().__init__(type_, name, {**inputs, **dict.fromkeys(wanted)}, opts)


def _value(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"of"}:
        return _made[value["of"]].id
    if isinstance(value, dict):
        return {name: _value(each) for name, each in value.items()}
    return [_value(each) for each in value] if isinstance(value, list) else value


for entry in json.loads(Path(os.environ["INLINE"]).read_text()):
    opts = pulumi.ResourceOptions(
        depends_on=[_made[name] for name in entry.get("after", [])],
        protect=entry.get("protect"),
        ignore_changes=entry.get("ignore"),
    )
    _made[entry["name"]] = Anything(entry["type"], entry["name"], _value(entry["inputs"]), opts)
