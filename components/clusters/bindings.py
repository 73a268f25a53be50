"""The name of what binds a ServiceAccount to its identity: another name is no other resource."""

import pulumi

from muster.model.identities import Bound


def renamed(team: str, bound: Bound, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """The options of a binding, with its former name, which begins with `team` as well. Without it the engine
    would make the binding under its new name and then delete it under the old one: pods would have none.
    """
    if bound.formerly is None:
        return opts
    former = pulumi.Alias(name=f"{team}{bound.formerly}")
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[former]))
