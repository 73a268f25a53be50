"""Registers what the file named by POLICY_CASE lists, as components: they need no provider, and a pack sees
them alike.
"""

import json
import os
from pathlib import Path

import pulumi


class Registered(pulumi.ComponentResource):
    """A resource of any type, with any inputs."""

    def __init__(self, token: str, name: str, inputs: dict[str, object], *, protect: bool) -> None:
        super().__init__(token, name, inputs, pulumi.ResourceOptions(protect=protect))
        self.register_outputs(inputs)


for each in json.loads(Path(os.environ["POLICY_CASE"]).read_text(encoding="utf-8")):
    Registered(each["type"], each["name"], each["inputs"], protect=each.get("protect", False))
