"""Charts and images come from the source that the stack names, and only with the recorded digests."""

import hashlib
from pathlib import Path

import pytest

from muster import config
from muster.artifacts import resolved
from muster.artifacts.catalogue import CatalogueError, catalogue
from muster.artifacts.resolved import ArtifactError
from muster.model.clusters import Provider
from muster.model.programs import mirrored
from muster.model.stack import Stack
from muster.paths import VERSIONS_FILE, stack_file
from tests.unit.model.model_stacks import new_mistakes, new_stack

DIGEST = "sha256:" + "ab" * 32
OURS = f"us-central1-docker.pkg.dev/p/muster/gang-admission@{DIGEST}"
KUBERAY = catalogue().charts["kuberay"]


def stack(**more: object) -> Stack:
    return new_stack(Provider.GKE, **more)


def test_by_default_each_chart_comes_from_its_own_project() -> None:
    found = resolved.published(stack(), name="here")
    kueue, kuberay = found.chart("kueue"), found.chart("kuberay")
    assert (kueue.reference, kueue.version, kueue.repository) == (
        "oci://registry.k8s.io/kueue/charts/kueue",
        "0.19.2",
        None,
    )
    assert (kuberay.reference, kuberay.version, kuberay.repository) == (
        "kuberay-operator",
        "1.6.2",
        "https://ray-project.github.io/kuberay-helm",
    )


def test_a_mirror_holds_every_chart_under_its_name() -> None:
    found = resolved.published(stack(charts={"mirror": "oci://registry.example/charts/"}), name="here")
    for name, entry in catalogue().charts.items():
        chart = found.chart(name)
        assert chart.reference == f"oci://registry.example/charts/{entry.chart}"
        assert (chart.version, chart.repository) == (entry.version, None)


def test_a_folder_has_archives_and_a_missing_one_is_reported(tmp_path: Path) -> None:
    (tmp_path / resolved.archive_name(KUBERAY)).write_bytes(b"chart")
    found = resolved.published(stack(charts={"path": str(tmp_path)}), name="here")
    assert found.chart("kuberay").reference == str(tmp_path / "kuberay-operator-1.6.2.tgz")
    with pytest.raises(ArtifactError, match=r"kueue-0\.19\.2\.tgz does not exist"):
        found.chart("kueue")


def test_an_archive_that_is_not_what_was_pinned_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / resolved.archive_name(KUBERAY)
    archive.write_bytes(b"chart")
    known = "sha256:" + hashlib.sha256(b"chart").hexdigest()
    resolved.published(stack(charts={"path": str(tmp_path), "digests": {"kuberay": known}}), name="here")
    archive.write_bytes(b"something else")
    with pytest.raises(ArtifactError, match="expected sha256:"):
        resolved.published(stack(charts={"path": str(tmp_path), "digests": {"kuberay": known}}), name="here")


def test_our_image_is_asked_for_with_the_command_that_publishes_it() -> None:
    with pytest.raises(ArtifactError, match="muster image push here"):
        resolved.resolve_artifacts(stack(), name="here")
    off = stack(gangAdmission={"mode": "off"})
    assert resolved.resolve_artifacts(off, name="here").images.keys() == catalogue().images.keys()
    assert resolved.published(stack(image=OURS), name="here").image(resolved.GANG_IMAGE) == OURS


def test_images_come_from_their_projects_a_mirror_or_a_pin() -> None:
    assert resolved.published(stack(), name="here").image("kueue") == "registry.k8s.io/kueue/kueue:v0.19.2"
    found = resolved.published(
        stack(images={"mirror": "m.example/x", "kuberay": f"m.example/y@{DIGEST}"}), name="here"
    )
    assert found.image("kueue") == "m.example/x/kueue/kueue:v0.19.2"
    assert found.image("kuberay") == f"m.example/y@{DIGEST}"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("quay.io/a/b:1", "m/a/b:1"), ("localhost:5000/b:1", "m/b:1"), ("library/b:1", "m/library/b:1")],
)
def test_a_mirror_takes_the_place_of_the_registry(reference: str, expected: str) -> None:
    assert mirrored(reference, "m") == expected


@pytest.mark.parametrize(
    ("more", "path", "expected"),
    [
        ({"charts": {"mirror": "https://a"}}, "muster:charts.mirror", "oci://"),
        ({"charts": {"mirror": "oci://a", "path": "b"}}, "muster:charts.path", "neither"),
        ({"charts": {"digests": {"kuberay": "1"}}}, "muster:charts.digests.kuberay", "hexadecimal"),
        (
            {"charts": {"digests": {"kubera": DIGEST}}},
            "muster:charts.digests.kubera",
            "did you mean 'kuberay'",
        ),
        ({"image": "a/b:latest"}, "muster:image", "muster image push"),
        ({"images": {"kueue": "a/b:1"}}, "muster:images.kueue", "name@sha256"),
        ({"images": {"kueu": f"a@{DIGEST}"}}, "muster:images.kueu", "did you mean 'kueue'"),
        ({"images": {"mirror": "https://a"}}, "muster:images.mirror", "scheme"),
    ],
)
def test_an_unusable_source_is_refused_at_its_path(more: dict[str, object], path: str, expected: str) -> None:
    assert expected in new_mistakes(Provider.GKE, **more)[path]


def test_every_chart_has_a_digest_or_a_reason_for_none() -> None:
    for entry in catalogue().charts.values():
        assert entry.digest or entry.unread, entry.name
        assert entry.licence


def test_a_kept_file_is_the_one_that_was_published(tmp_path: Path) -> None:
    copy = tmp_path / "versions.toml"
    copy.write_text(VERSIONS_FILE.read_text())
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / catalogue().files["provisioningrequests"].name).write_text("changed")
    with pytest.raises(CatalogueError, match="restore it"):
        catalogue(copy)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("gke-prod", {"kueue", "kuberay", "pause"}),
        ("kai-prod", {"kuberay", "cluster-autoscaler", "pause"}),
        ("eks-prod", {"kueue", "kuberay", "cluster-autoscaler", "aws-efa-k8s-device-plugin", "pause"}),
    ],
)
def test_only_images_that_a_stack_uses_are_said_to_be_taken_by_tag(name: str, used: set[str]) -> None:
    found = config.load(stack_file(name, start=Path(__file__).parent))
    assert resolved.by_tag(found).keys() == used


def test_an_existing_cluster_takes_no_image_of_a_cloud_by_tag() -> None:
    assert resolved.by_tag(new_stack(Provider.EXISTING)).keys() == {"kueue", "kuberay"}
