"""Kueue's webhooks, read from its chart without Helm.

Responsible for: which of them are installed and which address they call. The chart's few template lines
(labels, the name of a Service, the choice of a namespace selector) are resolved here, and an unknown one is
an error: a newer chart must be reviewed. Written against charts/kueue of Kueue 0.19.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.errors import LocalClusterError
from muster.model.work import WORK

Manifest = dict[str, Any]

_COMMENT: Final = re.compile(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", re.S)
_LINE: Final = re.compile(r"^\s*\{\{-? *(.*?) *-?\}\}\s*$")
_INLINE: Final = re.compile(r"'?\{\{.*?\}\}[^']*'?")
_SELECTOR: Final = "toYaml $managerConfig.managedJobsNamespaceSelector"
# The safe loader, in C where it is there.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def configurations(chart: Path, config: Mapping[str, Any], *, url: str, authority: str) -> list[Manifest]:
    """Its webhook configurations, calling `url` and trusting `authority` (base64 of PEM), for its own kinds
    and those that its configuration manages.
    """
    frameworks = config["integrations"]["frameworks"]
    groups = {each.framework: each.group for each in WORK}
    served = {"kueue.x-k8s.io", *(groups.get(name, "") for name in frameworks)}
    if any(each.serves for each in WORK if each.framework in frameworks):
        served.add("")  # Their pods wait behind a gate, which the webhook of pods puts there.
    selector = config.get("managedJobsNamespaceSelector") or {}
    found = []
    for each in _read(
        chart / "templates" / "webhook" / "manifests.yaml", selector=selector, frameworks=frameworks
    ):
        # Not the names that Kueue looks for: it would put an authority of its own in.
        each["metadata"] = {"name": f"bare-{each['kind'].removesuffix('WebhookConfiguration').lower()}"}
        each["webhooks"] = [
            _ours(hook, url, authority) for hook in each["webhooks"] if _groups(hook) <= served
        ]
        found.append(each)
    return found


def _ours(hook: Manifest, url: str, authority: str) -> Manifest:
    path = hook["clientConfig"]["service"]["path"]
    hook.pop("reinvocationPolicy", None)
    return {**hook, "clientConfig": {"url": url + path, "caBundle": authority}}


def _groups(hook: Manifest) -> set[str]:
    return {group for rule in hook["rules"] for group in rule["apiGroups"]}


def _read(path: Path, *, selector: Mapping[str, Any], frameworks: Iterable[str]) -> list[Manifest]:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    lines = _rendered(text.splitlines(), json.dumps(selector), list(frameworks), path)
    documents = yaml.load_all("\n".join(lines), Loader=_LOADER)
    return [each for each in documents if each]


def _rendered(lines: list[str], selector: str, frameworks: list[str], path: Path) -> Iterator[str]:
    """The lines that hold, template expressions within a line as plain words."""
    branches: list[bool] = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            if all(branches):
                yield _INLINE.sub("template", line)
            continue
        word = match[1]
        if word.startswith("if "):
            branches.append(_holds(word, frameworks, path))
        elif word == "else":
            branches[-1] = not branches[-1]
        elif word == "end":
            branches.pop()
        elif word.startswith(_SELECTOR) and all(branches):
            yield f"{line[: len(line) - len(line.lstrip())]}  {selector}"


def _holds(word: str, frameworks: list[str], path: Path) -> bool:
    if word == "if .Values.enableCertManager":
        return False
    if word == 'if (hasKey $managerConfig "managedJobsNamespaceSelector")':
        return True
    managed = re.fullmatch(r'if has "(\w+)" \$integrationsConfig\.frameworks', word)
    if managed is not None:
        return managed[1] in frameworks
    raise LocalClusterError(f"{path.name} of Kueue's chart", f"asks {word!r}", fix="decide it in webhooks.py")
