"""Where charts and images come from: sources that can be used, and images that are exactly one image."""

from collections.abc import Iterator

from muster.model.charts import OCI, ChartOrigin, has_digest, is_digest
from muster.model.stack import Stack
from muster.model.violations import Violation


def chart_rules(stack: Stack) -> list[Violation]:
    """Every rule about charts and images."""
    return [*_charts(stack), *_images(stack)]


def _charts(stack: Stack) -> Iterator[Violation]:
    source = stack.charts
    if source.origin is ChartOrigin.MIRROR and not source.location.startswith(OCI):
        message = f"{source.location!r} is no OCI registry."
        yield Violation("muster:charts.mirror", message, f"write it as {OCI}registry.example/charts.")
    for name, digest in source.digests.items():
        if not is_digest(digest):
            yield Violation(
                f"muster:charts.digests.{name}",
                f"{digest!r} is no digest.",
                "write sha256: and 64 hexadecimal digits; `muster image charts` prints it.",
            )


def _images(stack: Stack) -> Iterator[Violation]:
    ours = stack.images.gang_admission
    if ours is not None and not has_digest(ours):
        yield Violation(
            "muster:image",
            f"{ours!r} has no digest: a controller with rights over queues has to be exactly one image.",
            "run `muster image push STACK`, which publishes it and writes name@sha256:... here.",
        )
    for name, reference in stack.images.pinned.items():
        if not has_digest(reference):
            message = f"{reference!r} names no digest."
            yield Violation(f"muster:images.{name}", message, "write it as name@sha256:...")
    if stack.images.mirror is not None and "://" in stack.images.mirror:
        message = f"{stack.images.mirror!r} has a scheme; images have none."
        yield Violation(
            "muster:images.mirror", message, "write the registry and a path: registry.example/path."
        )
