"""What a cloud adds to a resource's inputs: its id, its links and ARNs, its defaults."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from tests.clouds.standin.table import Table
from tests.clouds.standin.values import Inputs


def rendered(
    table: Table, inputs: Inputs, *, hex: str, handed: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """(id, what the cloud adds): the table's templates over inputs, what is handed out, a random `hex`."""
    words = _Words({**handed, "hex": hex, "email": _email(inputs, handed), **_texts(inputs)})
    # A pool may name its cluster by its whole id.
    words["cluster"] = words["cluster"].rpartition("/")[2]
    id_ = _filled(table.id, words)
    words["id"] = id_
    added = {name: _filled(template, words) for name, template in table.outputs.items()}
    return id_, {**_defaults(inputs, handed), **added}


def completed(inputs: Inputs, added: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs: an input is an output too, and a nested one is completed, not replaced."""
    outputs = dict(inputs)
    for name, value in added.items():
        mine = outputs.get(name)
        outputs[name] = _completed(mine, value) if isinstance(mine, dict) else value
    return outputs


def _completed(mine: Any, value: Any) -> Any:
    """What was said wins, at any depth."""
    if not isinstance(mine, dict) or not isinstance(value, dict):
        return mine
    return {**value, **{name: _completed(each, value.get(name)) for name, each in mine.items()}}


def _defaults(inputs: Inputs, handed: Mapping[str, str]) -> dict[str, str]:
    return {name: handed[name] for name in ("project", "region") if name in handed and name not in inputs}


def _filled(template: Any, words: _Words) -> Any:
    if isinstance(template, str):
        return string.Formatter().vformat(template, (), words)
    if isinstance(template, list):
        return [_filled(each, words) for each in template]
    if isinstance(template, dict):
        return {name: _filled(each, words) for name, each in template.items()}
    return template


def _texts(inputs: Inputs) -> dict[str, str]:
    return {name: str(value) for name, value in inputs.items() if isinstance(value, str | int)}


def _email(inputs: Inputs, handed: Mapping[str, str]) -> str:
    project = inputs.get("project") or handed.get("project", "")
    return f"{inputs.get('accountId', '')}@{project}.iam.gserviceaccount.com"


class _Words(dict[str, str]):
    """A word that nobody gave is empty, as an absent part of a path is."""

    def __missing__(self, key: str) -> str:
        return ""
