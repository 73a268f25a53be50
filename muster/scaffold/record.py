"""The record of what `muster init` wrote into a project: `.muster.yaml`.

Responsible for: the choices that were made, and the digest of each file as it was written, by which an
update distinguishes a change of the user from a change of the templates.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from muster.errors import MusterError
from muster.scaffold.project import Project, Target

FILE: Final = ".muster.yaml"
_HEAD: Final = "# Written by `muster init`; `muster init --update` reads it. Leave it in version control.\n"


@dataclass(frozen=True, slots=True)
class Record:
    """`written`: path in the project -> digest of the text that `muster init` wrote or proposed last."""

    project: Project
    written: Mapping[str, str]


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def format_record(record: Record) -> str:
    project = record.project
    content = {
        "version": project.version,
        "provider": project.target.value,
        "stacks": list(project.stacks),
        "files": dict(sorted(record.written.items())),
    }
    return _HEAD + yaml.safe_dump(content, sort_keys=False, default_flow_style=False, width=200)


def read_record(folder: Path) -> Record:
    """MusterError where there is none, or it cannot be read."""
    path = folder / FILE
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        project = Project(
            target=Target(found["provider"]),
            stacks=tuple(map(str, found["stacks"])),
            version=str(found["version"]),
        )
        if not project.stacks:
            raise ValueError("it lists no stack")
        return Record(project, {str(name): str(value) for name, value in found["files"].items()})
    except FileNotFoundError:
        fix = "name the folder of a project that `muster init` made, or run `muster init` without --update."
        raise MusterError(f"{folder} has no {FILE}.", fix=fix) from None
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = f"restore {FILE} from version control."
        raise MusterError(f"{path} cannot be read: {error}", fix=fix) from None
