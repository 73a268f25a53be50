"""The realistic changes of banners/, as stacks."""

from pathlib import Path
from typing import Any

import yaml

from muster import config
from muster.model.stack import Stack

_HERE = Path(__file__).parent / "banners"
_BASE = _HERE / "base.yaml"


def cases() -> list[str]:
    return sorted(path.stem for path in _HERE.glob("*.yaml") if path != _BASE)


def read_case(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((_HERE / f"{name}.yaml").read_text(encoding="utf-8")))


def changed_texts(name: str) -> tuple[str, str]:
    """The stack file before and after the change."""
    case = read_case(name)
    base = _edited(_BASE.read_text(encoding="utf-8"), case.get("base", []))
    return base, _edited(base, case["replace"])


def changed_stacks(name: str) -> tuple[Stack, Stack]:
    """Base and head."""
    base, head = changed_texts(name)
    return _parse(base), _parse(head)


def _parse(text: str) -> Stack:
    return config.parse(yaml.safe_load(text)["config"], source="stack.yaml")


def _edited(text: str, edits: list[list[str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
