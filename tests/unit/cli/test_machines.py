"""`muster machines`: what a stack may name, with GPU, memory and price."""

from __future__ import annotations

import json

import pytest

from muster.cli import main
from muster.model.machines import MACHINES


def test_a_short_name_lists_the_machines_of_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "h100", "--provider", "gke"]) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("a3-highgpu-8g"))
    assert row.split()[:7] == ["a3-highgpu-8g", "gke", "8", "nvidia-h100-80gb", "80", "GiB", "208"]
    assert "p5.48xlarge" not in text


def test_json_has_prices_with_their_day(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "g2-standard-8", "--json"]) == 0
    (machine,) = json.loads(capsys.readouterr().out)["machines"]
    assert machine["accelerators"] == [1]
    assert {"region", "hourly", "currency", "read"} <= machine["prices"][0].keys()


def test_every_machine_with_a_gpu_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "--json"]) == 0
    listed = {each["machine"] for each in json.loads(capsys.readouterr().out)["machines"]}
    assert listed == {name for name, each in MACHINES.items() if each.accelerator is not None}
    assert main(["machines", "--cpu", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["machines"]) == len(MACHINES)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "h1000"]) == 2
    assert "there is no machine and no accelerator 'h1000'" in capsys.readouterr().err
