"""The wheel outside the checkout: `muster init`, `validate`, `pulumi preview` with own rules beside ours."""

import json
import zipfile
from pathlib import Path

import pytest
import yaml

from bench.wheel import ROOT
from muster.distribution import NAME
from tests import built
from tests.clouds.engine import Workspace, workspace
from tests.integration.conftest import ApiServer
from tests.project import Project, install_requirements, project, run

__all__ = ["project"]
IMAGES = ("gang-admission", "kueue", "kuberay")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def engine(project: Project, api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The engine on the project, whose context `muster` is an API server without nodes."""
    folder = tmp_path_factory.mktemp("engine")
    tools = built.tools()
    artifacts = {
        "charts": {"kueue": str(built.chart("kueue"))},
        "kustomize": {"kuberay": str(built.kuberay())},
        "crds": {"provisioningrequests": str(built.provisioning_requests())},
        "images": {name: f"localhost/{name}@{DIGEST}" for name in IMAGES},
        "path": str(tools),
    }
    (folder / "artifacts.json").write_text(json.dumps(artifacts), encoding="utf-8")
    kubeconfig = yaml.safe_load(api_server.admin.read_text(encoding="utf-8"))
    kubeconfig["contexts"][0]["name"] = kubeconfig["current-context"] = "muster"
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    install_requirements(project)
    environment = {
        "MUSTER_ARTIFACTS": str(folder / "artifacts.json"),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PYTHONPATH": "",
    }
    return workspace(folder / "pulumi", project.folder, "local", environment)


def test_wheel_holds_the_package_as_it_is_in_the_checkout(project: Project) -> None:
    with zipfile.ZipFile(project.wheel) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        plugin = wheel.getinfo("muster/provider/bin/pulumi-resource-muster")
    package = ROOT / "muster"
    found = {
        f"muster/{path.relative_to(package)}"
        for link in ("", "components", "policies", "local/demo/examples")
        for path in (package / link).rglob("*")
        # What writes pages of the documentation stays in the checkout.
        if path.is_file() and path.suffix != ".pyc" and package / "reference" not in path.parents
    }
    assert set(names) == found
    assert (plugin.external_attr >> 16) & 0o111, "the provider plugin must be executable"


def test_base_install_brings_neither_pulumi_nor_a_cloud(project: Project) -> None:
    listed = run(
        project.base.with_name("python"), "-m", "pip", "list", "--format=freeze", folder=project.folder
    )
    names = {line.partition("==")[0].lower() for line in listed.splitlines() if "==" in line}
    assert names == {NAME, "click", "jinja2", "markupsafe", "pyyaml", "pip", "setuptools"}


def test_base_install_validates_diffs_and_writes_stacks(project: Project) -> None:
    run(project.base, "validate", folder=project.folder)
    run(project.base, "validate", "local", folder=project.folder / "policies")
    run(project.base, "init", "--update", ".", folder=project.folder)
    text = (project.folder / "stacks" / "Pulumi.local.yaml").read_text(encoding="utf-8")
    before = project.folder.parent / "before.yaml"
    before.write_text(
        text.replace("quota: {l4: 1, h100: 1}, borrow", "quota: {l4: 2, h100: 1}, borrow"), "utf-8"
    )
    report = run(
        project.base, "diff", "local", "--base", before, "--fail-on", "loss", folder=project.folder, fails=1
    )
    assert "team-a" in report


def test_preview_creates_the_stack_by_the_plugin_of_the_wheel(engine: Workspace) -> None:
    run = engine.preview("--policy-pack", "policies", "--policy-pack-config", "policies/local.json")
    assert {step.op for step in run.changes} == {"create"}
    bundles = {step.name for step in run.of("muster:k8s:Bundle")}
    assert {"team-a", "team-b", "team-c"} <= bundles


def test_own_rule_is_judged_beside_ours(engine: Workspace, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"pool-size": {"nodes": 1}, "images-by-digest": "advisory"}), "utf-8")
    run = engine.preview("--policy-pack", "policies", "--policy-pack-config", str(settings), fails=True)
    assert "pool-size" in run.output
    assert "Pool h100 may grow to 2 nodes; 1 were agreed." in run.output
