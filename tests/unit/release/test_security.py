"""The documents about security are those that their specifications ask for."""

import json
import zipfile
from pathlib import Path

import pytest
import yaml

from release.bill import bill_of_wheel
from release.errors import ReleaseError
from release.security import STATEMENTS, insights, load_statements, vex

_STATEMENT = """\
[[statement]]
vulnerability = "CVE-2026-0001"
read = 2026-11-29
status = "not_affected"
justification = "vulnerable_code_not_in_execute_path"
"""


def test_the_statements_of_this_checkout_can_be_published() -> None:
    load_statements(STATEMENTS)


def test_a_statement_names_vulnerability_product_day_and_reason(tmp_path: Path) -> None:
    (tmp_path / "vex.toml").write_text(_STATEMENT)
    statements = load_statements(tmp_path / "vex.toml")
    written = json.loads(vex(statements, author="A <a@example.com>", version="0.2.0", made_at=0))
    assert written.keys() == {"@context", "@id", "author", "timestamp", "version", "statements"}
    assert written["statements"] == [
        {
            "vulnerability": {"name": "CVE-2026-0001"},
            "timestamp": "2026-11-29T00:00:00Z",
            "products": [{"@id": "pkg:pypi/muster-gpu@0.2.0"}],
            "status": "not_affected",
            "justification": "vulnerable_code_not_in_execute_path",
        }
    ]


@pytest.mark.parametrize(
    ("written", "mistaken"),
    [
        ("not_affected", "unknown"),
        ("justification", "reason"),
        ("read = 2026-11-29", 'read = "today"'),
        ("not_affected", "affected"),
    ],
)
def test_a_statement_without_what_openvex_asks_for_is_refused(
    written: str, mistaken: str, tmp_path: Path
) -> None:
    (tmp_path / "vex.toml").write_text(_STATEMENT.replace(written, mistaken))
    with pytest.raises(ReleaseError, match="statement 1: is no statement of OpenVEX"):
        load_statements(tmp_path / "vex.toml")


def test_security_insights_names_the_repository_and_its_maintainer() -> None:
    text = insights(repository="https://example.com/muster", name="A", email="a@example.com", made_at=0)
    written = yaml.safe_load(text)
    assert written["header"]["schema-version"] == "2.0.0"
    assert written["repository"]["url"] == "https://example.com/muster"
    assert written["repository"]["core-team"][0] == {"name": "A", "email": "a@example.com", "primary": True}


def test_the_bill_of_the_wheel_lists_its_files_with_their_digests(tmp_path: Path) -> None:
    wheel = tmp_path / "muster_gpu-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("muster/__init__.py", "")
    bill = json.loads(bill_of_wheel("0.2.0", "click==8.2.0\n", wheel=wheel, created="2026-11-29T00:00:00Z"))
    packages, files = (
        [each for each in bill["components"] if each["type"] == kind] for kind in ("library", "file")
    )
    assert [each["name"] for each in packages] == ["click"]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert files == [
        {
            "type": "file",
            "bom-ref": "file:muster/__init__.py",
            "name": "muster/__init__.py",
            "hashes": [{"alg": "SHA-256", "content": empty}],
        }
    ]
