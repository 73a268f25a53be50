"""Starts the plugin `muster-components` with the Pulumi SDK's own component provider host."""

import sys

import pulumi
from pulumi.provider import ConstructResult
from pulumi.provider import main as serve
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from muster.components.multilanguage.platform import Platform
from muster.components.multilanguage.queues import Queues
from muster.components.multilanguage.stack import PACKAGE
from muster.distribution import version


class Provider(ComponentProvider):
    """The SDK's provider of our components.

    The SDK treats every error of a constructor as a defect of the component and adds a traceback. A refused
    property goes to the program as such: the engine prints its path and the reason.
    """

    def __init__(self) -> None:
        super().__init__([Platform, Queues], PACKAGE, None, version())

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as problem:
            if isinstance(problem.inner, pulumi.InputPropertiesError):
                raise problem.inner from None
            raise


def main() -> None:
    """Serve the engine until it closes the plugin. The engine's address is the first argument."""
    serve(Provider(), sys.argv[1:])


if __name__ == "__main__":
    main()
