"""Secrets: none in plain config, none in Bundles, whose text is plain in state.

The engine passes every value to a pack in clear text, so what is marked secret is read from the stack's
file, where a secret is written as `secure:`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pulumi_policy import Severity

from muster import paths
from muster.bounded_yaml import load_all
from muster.config.project import extended_file
from muster.policies.registered import BUNDLE
from muster.policies.rule import Case, Finding, Rule, Threshold

# The forms in which credentials come: private keys, AWS key ids, tokens of GitHub, GitLab and Slack, JWTs,
# tokens of GitHub with few rights, of Google's APIs, Hugging Face, Pulumi and NVIDIA.
# Source: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml, read 2026-11-27.
# NVIDIA publishes the prefix alone; the length is unsourced.
# Source: https://docs.nvidia.com/nemo/retriever/latest/extraction/api-keys/, read 2026-11-27.
_CREDENTIAL: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    r"|\bglpat-[A-Za-z0-9_-]{20}|\bxox[abpr]-[A-Za-z0-9-]{10}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."
    r"|\bgithub_pat_[A-Za-z0-9_]{82}|\bAIza[A-Za-z0-9_-]{35}|\bhf_[A-Za-z]{34}|\bpul-[0-9a-f]{40}"
    r"|\bnvapi-[A-Za-z0-9_-]{20}"
)
_NAME: Final = re.compile(
    r"(password|passwd|secret|token|apikey|api_key|credential|privatekey)$", re.IGNORECASE
)


def plain_config(case: Case) -> Iterator[Finding]:
    """Values of the stack's file, and of those that it extends, that look like credentials or have the name
    of one, and are not `secure:`.
    """
    file: Path | None = paths.project() / case.settings["folder"] / f"Pulumi.{case.stack_name}.yaml"
    seen: set[Path] = set()
    while file is not None and file.is_file() and file not in seen:
        seen.add(file)
        document: Any = next(load_all(file.read_text(encoding="utf-8")), None)
        config = (document or {}).get("config") or {}
        for path in _plain(config, ""):
            yield Finding(f"{file.name}: {path} looks like a credential and is in clear text.")
        file = extended_file(file)


def _plain(value: Any, path: str) -> Iterator[str]:
    """The paths of suspicious plain values. A value itself is never reported."""
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            return
        for key, inner in value.items():
            yield from _plain(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _plain(inner, f"{path}[{index}]")
    elif isinstance(value, str) and value and (_CREDENTIAL.search(value) or _NAME.search(path)):
        yield path


def in_bundles(case: Case) -> Iterator[Finding]:
    """A Secret with content in a Bundle, or a credential in a ConfigMap."""
    bundles = {resource.urn for resource in case.registered.of(BUNDLE)}
    for item in case.registered.items("Secret", "ConfigMap"):
        values = {**(item.body.get("data") or {}), **(item.body.get("stringData") or {})}
        if item.kind == "Secret" and values and item.urn in bundles:
            yield Finding(
                f"{item.label} has its content in a Bundle, whose text is plain in state.", item.urn
            )
        elif item.kind == "ConfigMap" and any(_CREDENTIAL.search(str(value)) for value in values.values()):
            yield Finding(f"{item.label} contains a credential.", item.urn)


RULES: Final = (
    Rule(
        name="secrets-in-config",
        description="No credential is in clear text in a stack's file.",
        why="A stack file is in version control, and its history keeps the credential.",
        judge=plain_config,
        severity=Severity.CRITICAL,
        remediation="`pulumi config set --secret`, and revoke the credential: it is in the history.",
        url="https://www.pulumi.com/docs/iac/concepts/secrets/",
        thresholds={"folder": Threshold("stacks", {"type": "string"})},
    ),
    Rule(
        name="secrets-in-bundles",
        description="No credential goes into the cluster by way of a Bundle or a ConfigMap.",
        why=("A Bundle's manifests are in the state in clear text, and every reader of a ConfigMap sees it."),
        judge=in_bundles,
        severity=Severity.CRITICAL,
        remediation="make the Secret with kubernetes.core.v1.Secret, whose data is encrypted in state.",
        url="https://www.pulumi.com/docs/iac/concepts/secrets/",
    ),
)
