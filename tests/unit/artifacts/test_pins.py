"""What a stack takes by tag gets its digest, in the stack file, and nothing else there is touched."""

from pathlib import Path

import pytest
import yaml

from muster import config
from muster.artifacts import resolved
from muster.artifacts.catalogue import catalogue
from muster.artifacts.publish.build import StackFileError, with_charts, with_pins
from muster.config.edit import template
from muster.model.clusters import Provider

DIGEST = f"sha256:{'ab' * 32}"
PINS = {name: f"a.b/{name}@{DIGEST}" for name in catalogue().images}
FORMS = {
    "absent": "",
    "with a mirror": "  muster:images:  # ours\n    mirror: m.example/x\n",
    "empty": "  muster:images:\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_pinned_images_are_no_longer_taken_by_tag(form: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    text = template("x", Provider.GKE) + FORMS[form]
    file.write_text(text)
    if form != "empty":
        assert resolved.by_tag(config.load(file)).keys() == {"kueue", "kuberay", "pause"}
    file.write_text(with_pins(text, PINS, source="x"))
    stack = config.load(file)
    assert resolved.by_tag(stack) == {}
    assert stack.images.mirror == ("m.example/x" if form == "with a mirror" else None)
    left = [line for line in file.read_text().splitlines() if DIGEST not in line]
    assert [line for line in left if line.strip() != "muster:images:"] == [
        line for line in text.splitlines() if line.strip() != "muster:images:"
    ]


def test_images_in_braces_are_not_changed_but_reported() -> None:
    with pytest.raises(StackFileError, match=r"kueue: a\.b/kueue@sha256"):
        with_pins("config:\n  muster:images: {mirror: a.b/c}\n", PINS, source="x")


def test_what_is_written_is_yaml_below_config() -> None:
    written = yaml.safe_load(with_pins("config:\n  muster:scheduler: kueue\n", PINS, source="x"))
    assert written["config"]["muster:images"] == PINS


DIGESTS = dict.fromkeys(catalogue().charts, DIGEST)
CHARTS = {
    "absent": "",
    "with a mirror": "  muster:charts:  # ours\n    mirror: oci://m.example/x\n",
    "with some": f"  muster:charts:\n    mirror: oci://m.example/x\n    digests:\n      kai: {DIGEST}\n",
}


@pytest.mark.parametrize("form", CHARTS)
def test_charts_get_their_digests_and_nothing_else_is_touched(form: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    text = template("x", Provider.GKE) + CHARTS[form]
    missing = {name: digest for name, digest in DIGESTS.items() if f"{name}: {digest}" not in text}
    file.write_text(with_charts(text, missing, source="x"))
    stack = config.load(file)
    assert stack.charts.digests == DIGESTS
    assert resolved.without_digest(stack) == []
    assert stack.charts.location == ("" if form == "absent" else "oci://m.example/x")


def test_charts_in_braces_are_not_changed_but_reported() -> None:
    with pytest.raises(StackFileError, match=r"as their `digests`: .*kueue: sha256"):
        with_charts("config:\n  muster:charts: {path: charts}\n", DIGESTS, source="x")
