"""Starts the plugin `muster-components` with the Pulumi SDK's own component provider host."""

from importlib.metadata import PackageNotFoundError, version

from pulumi.provider.experimental import component_provider_host

from muster.components.multilanguage.platform import Platform
from muster.components.multilanguage.queues import Queues
from muster.components.multilanguage.stack import PACKAGE


def main() -> None:
    """Serve the engine until it closes the plugin. The engine's address is the first argument."""
    component_provider_host([Platform, Queues], PACKAGE, version=_version())


def _version() -> str | None:
    try:
        return version("muster")
    except PackageNotFoundError:
        return None  # a checkout that is not installed


if __name__ == "__main__":
    main()
