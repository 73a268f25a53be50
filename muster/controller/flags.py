"""The command line of the two programs: every flag, its default, its environment variable and its help."""

import argparse
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster.controller.runtime import logs
from muster.model import names
from muster.model.work import GATED

PROGRAM: Final = names.PROGRAM


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line. Every flag has an environment variable, named in its help; the flag wins."""
    program = argparse.ArgumentParser(
        prog="python -m muster.controller",
        description="Muster's gang-admission controller: a gang gets all its capacity, or none is held.",
        epilog="Exit codes: 0 stopped by a signal, 1 ended by an error or a lost lease, 2 wrong settings.",
    )
    commands = program.add_subparsers(dest="command", required=True, metavar="{manager,webhooks}")
    for name, text in (
        ("manager", "let gangs start; several replicas elect one that acts"),
        ("webhooks", "answer admission reviews over TLS; every replica serves"),
    ):
        command = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        _common_flags(command, environment)
        (_manager_flags if name == "manager" else _webhook_flags)(command, environment)
    return program


def _common_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--namespace",
        default=environment.get("POD_NAMESPACE", names.SYSTEM_NAMESPACE),
        help="where our own Lease, Secret and Service live [POD_NAMESPACE]",
    )
    command.add_argument(
        "--identity",
        default=environment.get("POD_NAME", socket.gethostname()),
        help="the name of this replica in the Lease and in Events; must be unique [POD_NAME]",
    )
    command.add_argument(
        "--health-port",
        type=_port,
        default=environment.get("MUSTER_HEALTH_PORT", "8080"),
        help="plain HTTP port of /healthz, /readyz and /metrics [MUSTER_HEALTH_PORT]",
    )
    command.add_argument(
        "--log-level",
        choices=logs.LEVELS,
        default=environment.get("MUSTER_LOG_LEVEL", "info"),
        help="least severe lines to print [MUSTER_LOG_LEVEL]",
    )
    command.add_argument(
        "--kubeconfig",
        type=Path,
        default=environment.get("MUSTER_KUBECONFIG"),
        help="a kubeconfig in JSON, for running outside a pod; `kubectl config view --raw --minify -o json` "
        "writes one [MUSTER_KUBECONFIG]",
    )
    command.add_argument(
        "--secret-name", default=names.CERTIFICATES, help="the Secret that keeps our certificates"
    )


def _manager_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=environment.get("MUSTER_LEADER_ELECT", "true") != "false",
        help="act only while holding the Lease; turn it off for a single replica only [MUSTER_LEADER_ELECT]",
    )
    command.add_argument("--lease-name", default=PROGRAM, help="name of the Lease")
    command.add_argument(
        "--deployment",
        default=environment.get("MUSTER_DEPLOYMENT", ""),
        metavar="NAME",
        help="the Deployment that this is a replica of: when it goes, waiting gangs get an Event and release "
        "what they hold [MUSTER_DEPLOYMENT]",
    )
    command.add_argument(
        "--read-events",
        action=argparse.BooleanOptionalAction,
        default=environment.get("MUSTER_READ_EVENTS", "false") == "true",
        help="say why placeholders have no node, by the Events of autoscalers [MUSTER_READ_EVENTS]",
    )
    command.add_argument(
        "--compute-domains",
        action=argparse.BooleanOptionalAction,
        default=environment.get("MUSTER_COMPUTE_DOMAINS", "false") == "true",
        help="make NVIDIA's ComputeDomain for each gang that claims one [MUSTER_COMPUTE_DOMAINS]",
    )
    command.add_argument(
        "--set-aside-broken-nodes",
        action=argparse.BooleanOptionalAction,
        default=environment.get("MUSTER_SET_ASIDE_BROKEN_NODES", "false") == "true",
        help="keep new pods from broken nodes by a taint [MUSTER_SET_ASIDE_BROKEN_NODES]",
    )
    command.add_argument(
        "--gate",
        action="append",
        metavar="KIND",
        choices=[each.kind for each in GATED],
        help="with KAI: start gangs of this kind, too, whose pods wait at the gate as Ray's do",
    )
    command.add_argument(
        "--delete-without-quota",
        type=int,
        metavar="SECONDS",
        default=environment.get("MUSTER_DELETE_WITHOUT_QUOTA"),
        help="with Kueue: delete pods with devices in namespaces of teams that have had no quota for a "
        "minute and their own grace period, and this much longer where their job has finished; unset: "
        "never [MUSTER_DELETE_WITHOUT_QUOTA]",
    )
    command.add_argument(
        "--service-name",
        default=f"{PROGRAM}-webhooks",
        help="the Service that the API server calls us through",
    )
    command.add_argument(
        "--validating",
        action="append",
        metavar="NAME",
        help="a ValidatingWebhookConfiguration that gets our CA",
    )
    command.add_argument(
        "--mutating", action="append", metavar="NAME", help="a MutatingWebhookConfiguration that gets our CA"
    )


def _webhook_flags(command: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    command.add_argument(
        "--webhook-port",
        type=_port,
        default=environment.get("MUSTER_WEBHOOK_PORT", "9443"),
        help="HTTPS port of the reviews [MUSTER_WEBHOOK_PORT]",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 1 to 65535, or 0 for any free one")
    return int(text)
