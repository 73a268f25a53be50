"""What a release says of its security in forms that programs read: OpenVEX and OpenSSF's Security Insights.

vex.toml has one statement for each vulnerability of a dependency that was assessed for Muster.
Source: openvex/spec, openvex_json_schema.json 0.2.0 at 309766a3, read 2026-11-29
Source: ossf/security-insights-spec, template-minimum.yml 2.0.0 at 1c2bf569, read 2026-11-29
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from muster.artifacts.publish.bom import pypi
from muster.distribution import NAME
from release.errors import ReleaseError

STATEMENTS: Final = Path(__file__).with_name("vex.toml")
# Status -> the keys of which a statement needs exactly one.
_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "not_affected": ("justification", "impact_statement"),
    "affected": ("action_statement",),
    "fixed": (),
    "under_investigation": (),
}
_ASSESSMENT: Final = "SECURITY.md says what counts as a vulnerability. No outside party has assessed it."
_KEYS: Final = {"vulnerability", "status", "read", "justification", "impact_statement", "action_statement"}


def load_statements(file: Path = STATEMENTS) -> list[dict[str, Any]]:
    """The assessed vulnerabilities. ReleaseError where one lacks what OpenVEX asks for."""
    found: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8")).get("statement", [])
    for index, each in enumerate(found, start=1):
        reasons = _REASONS.get(str(each.get("status")))
        given = [key for key in reasons or () if key in each]
        is_whole = {"vulnerability", "status", "read"} <= each.keys() <= _KEYS
        is_dated = isinstance(each.get("read"), date)
        if reasons is None or not (is_whole and is_dated) or len(given) != bool(reasons):
            raise ReleaseError(
                f"{file.name}, statement {index}: is no statement of OpenVEX. Fix: write vulnerability, read "
                f"(a day), a status of {', '.join(_REASONS)}, and with not_affected a justification or an "
                "impact_statement, with affected an action_statement."
            )
    return found


def vex(statements: Sequence[Mapping[str, Any]], *, author: str, version: str, made_at: int) -> bytes:
    """The OpenVEX document of a release. It needs one statement at least."""
    product = pypi(NAME, version).purl
    written = {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": f"urn:muster:vex:{version}",
        "author": author,
        "timestamp": datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": 1,
        "statements": [
            {
                "vulnerability": {"name": each["vulnerability"]},
                "timestamp": f"{each['read']}T00:00:00Z",
                "products": [{"@id": product}],
                **{key: value for key, value in each.items() if key not in ("vulnerability", "read")},
            }
            for each in statements
        ],
    }
    return json.dumps(written, indent=1).encode() + b"\n"


def insights(*, repository: str, name: str, email: str, made_at: int) -> str:
    """SECURITY-INSIGHTS.yml of the repository at that address, whose maintainer makes the release."""
    day = datetime.fromtimestamp(made_at, UTC).date().isoformat()
    person = [{"name": name, "email": email, "primary": True}]
    written = {
        "header": {
            "schema-version": "2.0.0",
            "last-updated": day,
            "last-reviewed": day,
            "url": f"{repository}/SECURITY-INSIGHTS.yml",
        },
        "project": {
            "name": "Muster",
            "administrators": person,
            "repositories": [
                {"name": "muster", "url": repository, "comment": "Product, tests and documentation."}
            ],
            "vulnerability-reporting": {"reports-accepted": True, "bug-bounty-available": False},
        },
        "repository": {
            "url": repository,
            "status": "active",
            "accepts-change-request": True,
            "accepts-automated-change-request": True,
            "core-team": person,
            "license": {"url": f"{repository}/LICENSE", "expression": "Apache-2.0"},
            "security": {"assessments": {"self": {"comment": _ASSESSMENT}}},
        },
    }
    return yaml.safe_dump(written, sort_keys=False, width=110)
