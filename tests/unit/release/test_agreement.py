"""A release is made only where version, changelog, tag and checkout say the same."""

from dataclasses import replace

import pytest

from release.agreement import Checkout, disagreements
from release.changelog import Section, sections

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-11-24

### Added

- A thing.

## [0.1.0] - 2026-01-31

- The first.
"""
CHECKOUT = Checkout(version="0.2.0", commit="a" * 40, tagged="", changed=())


def test_sections_have_their_text_without_the_heading() -> None:
    assert sections(CHANGELOG) == [
        Section("Unreleased", "", ""),
        Section("0.2.0", "2026-11-24", "### Added\n\n- A thing."),
        Section("0.1.0", "2026-01-31", "- The first."),
    ]


@pytest.mark.parametrize("tagged", ["", "a" * 40])
def test_a_checkout_that_agrees_is_released(tagged: str) -> None:
    assert list(disagreements(replace(CHECKOUT, tagged=tagged), sections(CHANGELOG))) == []


@pytest.mark.parametrize(
    ("checkout", "changelog", "told"),
    [
        (replace(CHECKOUT, version="0.2"), CHANGELOG, "version 0.2 is no release"),
        (replace(CHECKOUT, version="0.3.0"), CHANGELOG, "no section for 0.3.0; its newest version is 0.2.0"),
        (CHECKOUT, "# Changelog\n", "no section for 0.2.0; it has no version"),
        (CHECKOUT, CHANGELOG.replace("2026-11-24", "soon"), "[0.2.0] has the day 'soon'"),
        (CHECKOUT, CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- Late.\n"), "has entries"),
        (replace(CHECKOUT, tagged="b" * 40), CHANGELOG, "tag v0.2.0 is another commit, bbbbbbbbbbbb"),
        (
            replace(CHECKOUT, changed=["a", "b", "c", "d"]),
            CHANGELOG,
            "4 files differ from the commit: a, b, c, ...",
        ),
    ],
    ids=["version", "section", "none", "day", "unreleased", "tag", "changed"],
)
def test_what_disagrees_is_told_with_its_fix(checkout: Checkout, changelog: str, told: str) -> None:
    found = "\n".join(disagreements(checkout, sections(changelog)))
    assert told in found
    assert all("Fix: " in line for line in found.splitlines())
