"""Base of every component: names its children after the instance and hands `depends_on` down to them.

Responsible for the two things that a Pulumi component does not do by itself: a URN holds the types of a
resource's parents and not their names, so children of two instances collide unless they are named after
them; and `depends_on` of a component does not make its children wait.
"""

from collections.abc import Sequence

import pulumi


class Component(pulumi.ComponentResource):
    """`short_name`: the instance of this name gives its children their short names, which is how Muster's own
    program names them. Every other instance puts its own name in front of them.

    What `opts.depends_on` names exists before anything of the component is made, and until all of it is
    deleted.
    """

    def __init__(
        self, type_: str, name: str, opts: pulumi.ResourceOptions | None, *, short_name: str = ""
    ) -> None:
        own = pulumi.ResourceOptions.merge(None, opts)
        self._inherited = pulumi.ResourceOptions(depends_on=own.depends_on)
        # The children wait. A second edge from the component adds paths that the engine walks one by one.
        own.depends_on = None
        super().__init__(type_, name, None, own)
        self._prefix = "" if name == short_name else f"{name}-"

    def child_name(self, name: str) -> str:
        """The name of a child whose own name does not hold the instance's."""
        return f"{self._prefix}{name}"

    def child_options(
        self,
        *,
        provider: pulumi.ProviderResource | None = None,
        after: Sequence[pulumi.Resource] | None = None,
    ) -> pulumi.ResourceOptions:
        """Options of a child. `after`: children of this component that are made before it, through which it
        waits for what the component depends on; None lets it wait for that itself.
        """
        own = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=list(after or ()))
        return pulumi.ResourceOptions.merge(self._inherited, own) if after is None else own
