"""Writes what a checkout has from the declaration of the stack file: `python -m release.checkout`.

These are the schemas beside stack files and the keys in Pulumi.yaml. Tests hold that they are current.
"""

import json
from pathlib import Path
from typing import Final

from muster import paths
from muster.config.schema import part_schema
from muster.config.schema.keys import project_config
from muster.scaffold.project import SCHEMA, schema_text

PART: Final = "examples/environments/stacks/part.schema.json"
_CONFIG: Final = "\nconfig:\n"


def main(root: Path) -> None:
    (root / paths.STACKS / SCHEMA).write_text(schema_text(), encoding="utf-8")
    (root / PART).write_text(part_text(), encoding="utf-8")
    project = root / "Pulumi.yaml"
    head = project.read_text(encoding="utf-8").partition(_CONFIG)[0]
    project.write_text(head + _CONFIG + project_config(), encoding="utf-8")


def part_text() -> str:
    return json.dumps(part_schema(), indent=2) + "\n"


if __name__ == "__main__":
    main(Path.cwd())
