"""`muster:versions`: one word for a chart and its images, within what Muster supports."""

from collections.abc import Mapping

import pytest
import yaml

from muster.artifacts import resolved
from muster.artifacts.catalogue import catalogue
from muster.config.document import ConfigError, parse_text
from muster.config.stack import examine
from muster.model.clusters import EksCluster, Provider
from muster.model.stack import Stack
from tests.unit.model.model_stacks import new_config, new_mistakes, new_stack

DIGEST = "sha256:" + "ab" * 32


def stack(provider: Provider = Provider.EKS, **more: object) -> Stack:
    return new_stack(provider, **more)


def mistakes(provider: Provider = Provider.EKS, **more: object) -> Mapping[str, str]:
    return new_mistakes(provider, **more)


def test_a_version_raises_the_chart_and_its_image_together() -> None:
    found = resolved.published(stack(versions={"kuberay": "1.6.1"}), name="here")
    assert found.chart("kuberay").version == "1.6.1"
    assert found.image("kuberay") == "quay.io/kuberay/operator:v1.6.1"
    assert found.chart("kueue").version == catalogue().charts["kueue"].version


@pytest.mark.parametrize("chart", ["kueue", "kuberay"])
def test_an_image_cannot_stay_behind_its_chart(chart: str) -> None:
    raised = catalogue().at({chart: "9.9.9"})
    assert raised.images[chart].endswith(":v9.9.9")


def test_charts_that_write_a_v_keep_it() -> None:
    assert catalogue().at({"kai": "0.17.1"}).charts["kai"].version == "v0.17.1"
    assert catalogue().at({"gpu-operator": "v26.3.1"}).charts["gpu-operator"].version == "v26.3.1"


def test_the_recorded_digest_belongs_to_musters_own_version_alone() -> None:
    entry = catalogue().charts["kueue"]
    assert entry.at(entry.version) is entry
    assert entry.at("0.19.1").digest == ""


def test_the_autoscaler_has_the_minor_version_of_the_cluster() -> None:
    found = resolved.published(stack(versions={"kubernetes": "1.35"}, cluster=eks(version=None)), name="here")
    assert found.image("cluster-autoscaler").endswith("/cluster-autoscaler:v1.35.0")


def eks(**more: object) -> dict[str, object]:
    written = new_config(Provider.EKS)["muster:cluster"]
    return {key: value for key, value in {**written, **more}.items() if value is not None}


def test_kubernetes_is_the_version_of_the_cluster_said_once() -> None:
    cluster = stack(versions={"kubernetes": "1.35"}, cluster=eks(version=None)).cluster
    assert isinstance(cluster, EksCluster)
    assert cluster.version == "1.35"
    twice = mistakes(versions={"kubernetes": "1.35"}, cluster=eks(version="1.35"))
    assert "remove one of them" in twice["muster:versions.kubernetes"]
    old = mistakes(versions={"kubernetes": "1.28"}, cluster=eks(version=None))
    assert "below 1.34" in old["muster:versions.kubernetes"]


@pytest.mark.parametrize("provider", [Provider.EKS, Provider.GKE])
def test_a_kubernetes_that_muster_was_not_compared_with_is_refused(provider: Provider) -> None:
    cluster = new_config(provider)["muster:cluster"]
    cluster.pop("version", None)
    found = mistakes(provider, versions={"kubernetes": "1.44"}, cluster=cluster)
    assert 'write one of "1.34" to "1.37"' in found["muster:versions.kubernetes"]
    stack(provider, versions={"kubernetes": "1.37"}, cluster=cluster)


def test_a_version_is_reported_at_the_line_where_it_is_written() -> None:
    values = new_config(Provider.EKS, cluster=eks(version=None), versions={"kubernetes": "1.29"})
    text = yaml.safe_dump({"config": values})
    document = parse_text(text, source="x")
    found = ConfigError(examine(document)[1], document)
    (line,) = [number for number, line in enumerate(text.splitlines(), 1) if "1.29" in line]
    assert f"x:{line}: muster:versions.kubernetes: " in str(found)


@pytest.mark.parametrize(
    ("versions", "key", "expected"),
    [
        ({"kueue": "0.18.3"}, "kueue", "below 0.19.0"),
        ({"kuberay": "1.8.0"}, "kuberay", "use a version below 1.7.0"),
        ({"kuberay": "latest"}, "kuberay", "is no version"),
        ({"kuberay": "1.6"}, "kuberay", 'write its patch, too: "1.6.0"'),
        ({"kuberay": 1.6}, "kuberay", "put the value in quotes"),
        ({"kai": "0.17.1"}, "kai", "does not install KAI"),
        ({"kubray": "1.6.2"}, "kubray", "kuberay"),
    ],
)
def test_what_cannot_be_installed_is_named_with_what_can(
    versions: dict[str, object], key: str, expected: str
) -> None:
    assert expected in mistakes(versions=versions)[f"muster:versions.{key}"]


def test_a_pinned_image_of_another_version_is_refused() -> None:
    pinned = f"m.example/operator:v1.6.2@{DIGEST}"
    found = mistakes(versions={"kuberay": "1.6.1"}, images={"kuberay": pinned})
    assert "pins the image of v1.6.2" in found["muster:versions.kuberay"]
    stack(versions={"kuberay": "1.6.2"}, images={"kuberay": pinned})


@pytest.mark.parametrize("tag", ["v1.6.2_patched", "v1.6.2.1", "1.6.2.dev0", "nightly"])
def test_a_pinned_image_whose_tag_is_no_version_is_warned_of(tag: str) -> None:
    pinned = {"kuberay": f"m.example/operator:{tag}@{DIGEST}"}
    values = new_config(Provider.EKS, versions={"kuberay": "1.6.2"}, images=pinned)
    read, found = examine(parse_text(yaml.safe_dump({"config": values}), source="x"))
    assert read is not None
    (warned,) = [str(each) for each in found if "muster:versions.kuberay" in str(each)]
    assert "an image whose tag is no version" in warned


def test_a_patch_of_ray_is_refused_as_nothing_compares_it() -> None:
    found = mistakes(ray={"minimum": "2.54.3"})
    assert "compare the minor release alone" in found["muster:ray.minimum"]
    assert 'write "2.54" or "2.55"' in found["muster:ray.minimum"]
    stack(ray={"minimum": "2.54.0"})


def test_a_local_cluster_takes_what_was_built() -> None:
    found = mistakes(versions={"kuberay": "1.6.1"}, artifacts="local")
    assert "muster:artifacts: upstream" in found["muster:versions"]
