"""Objects that name a parent of their own kind: none may be its own ancestor in a stack."""

from collections.abc import Iterator, Mapping


def circles(parents: Mapping[str, str]) -> Iterator[str]:
    """The first name of each circle. `parents` has "" at the top; the caller cuts each there."""
    for name in sorted(parents):
        seen, at = {name}, parents[name]
        while at and at not in seen:
            seen.add(at)
            at = parents[at]
        if at:
            yield name
