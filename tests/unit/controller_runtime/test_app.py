"""The command line says what it takes, and wrong settings end with a reason before anything is started."""

import pytest

from muster.controller.app import main
from muster.controller.flags import parser


async def nothing(_: object) -> None:
    """A program without reconcilers."""


def run(*arguments: str, environment: dict[str, str] | None = None) -> int:
    return main(arguments, register=nothing, webhooks=lambda _: (), environment=environment or {})


@pytest.mark.parametrize("command", ["manager", "webhooks"])
def test_every_flag_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(command, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--namespace", "--identity", "--health-port", "--log-level", "--kubeconfig"):
        assert flag in text


def test_outside_a_pod_the_way_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("manager") == 2
    assert "--kubeconfig" in capsys.readouterr().err


def test_a_wrong_port_is_refused_with_the_allowed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("webhooks", "--webhook-port", "70000")
    assert "1 to 65535" in capsys.readouterr().err


def test_the_environment_gives_defaults_and_flags_win() -> None:
    environment = {
        "POD_NAMESPACE": "n",
        "POD_NAME": "p",
        "MUSTER_LEADER_ELECT": "false",
        "MUSTER_HEALTH_PORT": "81",
    }
    settings = parser(environment).parse_args(["manager", "--identity", "mine"])
    assert (settings.namespace, settings.identity, settings.leader_elect) == ("n", "mine", False)
    assert settings.health_port == 81
    assert parser(environment).parse_args(["manager", "--leader-elect"]).leader_elect is True
