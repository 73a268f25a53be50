"""A policy about our own accounts alone, in every namespace."""

from collections.abc import Sequence

from muster.render.tenancy.policies.policy import OURS, Kinds, Policy, Rule


def fence(
    name: str,
    *,
    purpose: str,
    kinds: tuple[Kinds, ...],
    rules: tuple[Rule, ...],
    words: Sequence[tuple[str, str]] = (),
    besides: str = "",
) -> Policy:
    """`besides`: which of our accounts has a policy of its own about these kinds."""
    return Policy(
        name=name,
        purpose=purpose,
        kinds=kinds,
        unless=(("another", f"!({OURS}) || {besides}" if besides else f"!({OURS})"),),
        everywhere=True,
        words=words,
        rules=rules,
    )
