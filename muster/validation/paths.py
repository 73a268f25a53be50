"""Config paths of departments and teams."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from muster.model.keys import camel_case
from muster.model.queues import Department, Team
from muster.model.violations import at


def department_path(chain: tuple[Department, ...]) -> str:
    """`muster:departments.research.departments.vision` for the chain from the top to the department."""
    parts = ["muster:departments"]
    for department in chain:
        parts += [department.name, "departments"]
    return at(*parts[:-1])


def team_path(chain: tuple[Department, ...], team: Team) -> str:
    return at(department_path(chain), "teams", team.name)


# The keys of a section that differ from their default.
#
# Responsible for the key of a model's field in a stack file: its metadata's `key`, or its name in camel case.
# An empty key means that the fields of the field are in the section itself.

_KEY: Final = "key"


def explicit_keys(section: Any, default: Any) -> Iterator[str]:
    """The keys, dotted, of everything in `section` that differs from `default`."""
    for each in fields(section):
        value, other = getattr(section, each.name), getattr(default, each.name)
        if value == other:
            continue
        prefix = each.metadata.get(_KEY, camel_case(each.name))
        for below in _below(value, other):
            yield ".".join(part for part in (prefix, below) if part)


def _below(value: Any, default: Any) -> Iterator[str]:
    if is_dataclass(value) and type(value) is type(default):
        yield from explicit_keys(value, default)
    elif isinstance(value, dict):  # in another project's words
        for key, item in value.items():
            for below in _below(item, None):
                yield ".".join(part for part in (key, below) if part)
    elif isinstance(value, Mapping):
        yield from value
    else:
        yield ""
