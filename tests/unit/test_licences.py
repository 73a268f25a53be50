"""The page of licences covers what the images pin, and a text is recognised by its own wording."""

import re
from pathlib import Path

import pytest

from muster.artifacts.publish.bom import UNKNOWN, Part, page, python_licence, python_parts, recognise
from muster.local.builder.versions import load
from muster.paths import REQUIREMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")


def test_page_has_every_package_of_the_controller_image_in_its_pinned_version() -> None:
    section = PAGE.partition("## Image `gang-admission`")[2].partition("\n## ")[0].lower().replace("_", "-")
    for line in (REQUIREMENTS / "controller.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line and "sys_platform" not in line and "python_full_version" not in line:
            name, _, rest = line.partition("==")
            assert re.search(
                rf"[ ,]{re.escape(name)}@{re.escape(rest.split()[0])}(?:,|$)", section, re.MULTILINE
            ), "run `muster local build` and `make licences`"


@pytest.mark.parametrize("name", ["kueue-player", "kai-player"])
def test_page_has_the_modules_that_a_player_pins(name: str) -> None:
    section = PAGE.partition(f"## Program `{name}`")[2].partition("\n## ")[0]
    program = load().programs[name]
    assert f" {program.module}@{program.version}" in section, (
        f"run `muster local build --only {name}` and `make licences`"
    )


def test_no_licence_on_the_page_is_unknown() -> None:
    assert UNKNOWN not in PAGE
    assert re.findall(r"^## (?:Image|Program) `([\w-]+)`", PAGE, re.MULTILINE) == [
        "gang-admission",
        "ray",
        "coredns",
        "kueue",
        "kuberay",
        "kueue-player",
        "kai-player",
    ]


def test_own_licence_is_the_apache_licence() -> None:
    assert recognise((ROOT / "LICENSE").read_text(encoding="utf-8")) == "Apache-2.0"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MIT License\n\nPermission is hereby granted,\nfree of charge, to any person", "MIT"),
        ("Redistribution and use in source and binary forms ... to endorse or promote", "BSD-3-Clause"),
        ("Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"),
        ("Mozilla Public License Version 2.0", "MPL-2.0"),
        ("All rights reserved.", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_text_is_recognised_or_called_unknown(text: str, name: str) -> None:
    assert recognise(text) == name


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: x\n", "MIT OR Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License\nLicense: y\n", "MIT License"),
        ("License: BSD\n", "BSD"),
        ("Name: x\n", UNKNOWN),
    ],
)
def test_metadata_states_the_licence_in_several_ways(metadata: str, name: str) -> None:
    assert python_licence(metadata) == name


def test_licence_file_counts_where_the_metadata_is_silent(tmp_path: Path) -> None:
    folder = tmp_path / "a-1.dist-info"
    (folder / "licenses").mkdir(parents=True)
    (folder / "METADATA").write_text("Name: a\nVersion: 1\n", encoding="utf-8")
    (folder / "licenses" / "LICENSE").write_text(
        "Permission is hereby granted, free of charge", encoding="utf-8"
    )
    assert list(python_parts(tmp_path)) == [Part("a", "1", "MIT")]


def test_page_lists_a_part_once_and_in_order() -> None:
    text = page({"Image": [Part("b", "1", "MIT"), Part("a", "1", "MIT"), Part("b", "1", "MIT")]})
    assert text.endswith("## Image\n\n- MIT: a@1, b@1\n")
