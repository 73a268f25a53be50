"""Reads a policy from untyped values: an object's `spec`, or the same keys in a stack file.

Responsible for what is malformed. Reading continues after a mistake, so that all mistakes are reported at
once. Not responsible for rules between fields (rules.py).
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from muster.model.gangpolicy.durations import parse_duration
from muster.model.gangpolicy.policy import (
    DetailSelector,
    FlavorPolicy,
    GangPolicy,
    KaiPolicy,
    OnStaggered,
    OnStockOut,
    RetryPolicy,
)
from muster.model.gangpolicy.rules import violations
from muster.model.quantities import parse_quantity
from muster.model.violations import Violation

Word = TypeVar("Word", bound=StrEnum)


def from_spec(spec: object, *, path: str = "spec", is_stored: bool = False) -> GangPolicy | list[Violation]:
    """Read a policy from its `spec`, or return every violation.

    An unknown field is a mistake in a file that a person writes. The API server stores such a field only if a
    newer definition has it. `is_stored` ignores it, so that an older replica keeps working during a rollout.
    """
    reader = _Reader()
    policy = reader.policy(spec, path)
    noted = [*reader.found, *(() if is_stored else reader.unknown)]
    return noted or violations(policy, path=path) or policy


def unknown_fields(spec: object, *, path: str = "spec") -> list[str]:
    """The paths of what is no field of GangPolicy."""
    reader = _Reader()
    reader.policy(spec, path)
    return [violation.path for violation in reader.unknown]


class _Reader:
    """Reads untyped values into the policy, notes what does not fit, and goes on."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self.unknown: list[Violation] = []

    def policy(self, spec: object, path: str) -> GangPolicy:
        known = GangPolicy()
        values = self._mapping(spec, path, allowed=_SPEC_FIELDS)
        return GangPolicy(
            managed_resources=self._names(values, "managedResources", path, known.managed_resources),
            queue_timeout=self._duration(values, "queueTimeout", path, known.queue_timeout),
            provision_timeout=self._duration(values, "provisionTimeout", path, known.provision_timeout),
            booking_window=self._duration(values, "bookingWindow", path, known.booking_window),
            booking_margin=self._duration(values, "bookingMargin", path, known.booking_margin),
            on_staggered=self._word(values, "onStaggered", OnStaggered.RELEASE, path),
            on_stock_out=self._word(values, "onStockOut", OnStockOut.RETRY, path),
            placeholder_image=self._text(values, "placeholderImage", path),
            retry=self._retry(values.get("retry", {}), f"{path}.retry"),
            node_loss_grace=self._duration(values, "nodeLossGrace", path, known.node_loss_grace),
            unreachable_grace=self._duration(values, "unreachableGrace", path, known.unreachable_grace),
            lease_notice=self._duration(values, "leaseNotice", path, known.lease_notice),
            flavors=tuple(
                self._flavor(item, f"{path}.flavors[{index}]")
                for index, item in enumerate(self._list(values.get("flavors", ()), f"{path}.flavors"))
            ),
            kai=self._kai(values["kai"], f"{path}.kai") if values.get("kai") is not None else None,
        )

    def _kai(self, spec: object, path: str) -> KaiPolicy:
        known = KaiPolicy()
        values = self._mapping(spec, path, allowed=("overQuota", "preemptAfter"))
        return KaiPolicy(
            over_quota=self._word(values, "overQuota", known.over_quota, path),
            preempt_after=self._duration(values, "preemptAfter", path, known.preempt_after),
        )

    def _retry(self, spec: object, path: str) -> RetryPolicy:
        known = RetryPolicy()
        values = self._mapping(spec, path, allowed=_RETRY_FIELDS)
        return RetryPolicy(
            base=self._duration(values, "base", path, known.base),
            max=self._duration(values, "max", path, known.max),
            deadline=self._duration(values, "deadline", path, known.deadline),
            jitter_percent=self._integer(values, "jitterPercent", path, known.jitter_percent),
            per_minute=self._integer(values, "perMinute", path, known.per_minute),
        )

    def _flavor(self, spec: object, path: str) -> FlavorPolicy:
        values = self._mapping(spec, path, allowed=_FLAVOR_FIELDS)
        selectors = self._list(values.get("nodeSelectorFromDetails", ()), f"{path}.nodeSelectorFromDetails")
        return FlavorPolicy(
            name=self._text(values, "name", path),
            provisioning_class_name=self._text(values, "provisioningClassName", path),
            parameters=self._parameters(values.get("parameters", {}), f"{path}.parameters"),
            node_selector_from_details=tuple(
                self._selector(item, f"{path}.nodeSelectorFromDetails[{index}]")
                for index, item in enumerate(selectors)
            ),
            one_pod_set_per_request=self._boolean(values, "onePodSetPerRequest", path),
            verify_nodes=self._boolean(values, "verifyNodes", path),
            max_nodes=self._integer(values, "maxNodes", path, 0),
            gpus_per_node=self._integer(values, "gpusPerNode", path, 0),
            per_node=self._quantities(values.get("perNode", {}), f"{path}.perNode"),
            gpu_taint=self._boolean(values, "gpuTaint", path, default=False),
            gpu_memory=self._integer(values, "gpuMemory", path, 0),
            slice_nodes=self._integer(values, "sliceNodes", path, 1),
            scarcity=self._integer(values, "scarcity", path, 0),
        )

    def _selector(self, spec: object, path: str) -> DetailSelector:
        values = self._mapping(spec, path, allowed=("key", "detail"))
        return DetailSelector(key=self._text(values, "key", path), detail=self._text(values, "detail", path))

    def _word(self, values: Mapping[str, object], key: str, default: Word, path: str) -> Word:
        """A member of the default's enumeration."""
        words = type(default)
        value = values.get(key, default.value)
        try:
            return words(str(value))
        except ValueError:
            self._note(f"{path}.{key}", f"{value!r} is unknown", f"write {' or '.join(words)}")
            return default

    def _parameters(self, spec: object, path: str) -> Mapping[str, str]:
        values = self._mapping(spec, path, allowed=None)
        for key, value in values.items():
            if not isinstance(value, str) or len(value) > 255:
                self._note(
                    f"{path}.{key}", f"{value!r} is not a text of at most 255 characters", "put it in quotes"
                )
        return {key: value for key, value in values.items() if isinstance(value, str)}

    def _quantities(self, spec: object, path: str) -> Mapping[str, str]:
        values = self._mapping(spec, path, allowed=None)
        found = {}
        for key, value in values.items():
            try:
                parse_quantity(str(value))
            except ValueError as error:
                self._note(f"{path}.{key}", str(error), "write a quantity")
            else:
                found[key] = str(value)
        return found

    def _names(
        self, values: Mapping[str, object], key: str, path: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        items = self._list(values.get(key, default), f"{path}.{key}")
        for item in items:
            if not isinstance(item, str):
                self._note(
                    f"{path}.{key}",
                    f"{item!r} is not a resource's name",
                    "write a name such as nvidia.com/gpu",
                )
        return tuple(item for item in items if isinstance(item, str))

    def _duration(self, values: Mapping[str, object], key: str, path: str, default: timedelta) -> timedelta:
        value = values.get(key)
        if value is None:
            return default
        try:
            return parse_duration(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            self._note(
                f"{path}.{key}", str(error), "write hours, minutes and seconds in this order: 1h30m, 45s"
            )
            return default

    def _integer(self, values: Mapping[str, object], key: str, path: str, default: int) -> int:
        value = values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self._note(
            f"{path}.{key}", f"{value!r} is not a whole number", f"write a number such as {default or 1}"
        )
        return default

    def _boolean(self, values: Mapping[str, object], key: str, path: str, *, default: bool = True) -> bool:
        value = values.get(key, default)
        if isinstance(value, bool):
            return value
        self._note(f"{path}.{key}", f"{value!r} is neither true nor false", "write true or false")
        return True

    def _text(self, values: Mapping[str, object], key: str, path: str) -> str:
        value = values.get(key, "")
        if isinstance(value, str):
            return value
        self._note(f"{path}.{key}", f"{value!r} is not a text", "put it in quotes")
        return ""

    def _list(self, value: object, path: str) -> Sequence[object]:
        if isinstance(value, list | tuple):
            return value
        self._note(path, f"{value!r} is not a list", "write a list, [] for none")
        return ()

    def _mapping(self, value: object, path: str, *, allowed: Sequence[str] | None) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            self._note(path, f"{value!r} is not a mapping", "write key: value pairs")
            return {}
        fields = {str(key): item for key, item in value.items()}
        for key in fields:
            if allowed is not None and key not in allowed:
                fix = f"allowed: {', '.join(allowed)}."
                self.unknown.append(Violation(f"{path}.{key}", "is not a field of GangPolicy.", fix))
        return fields

    def _note(self, path: str, message: str, fix: str) -> None:
        self.found.append(Violation(path, f"{message}.", f"{fix}."))


_SPEC_FIELDS = (
    "managedResources",
    "queueTimeout",
    "provisionTimeout",
    "bookingWindow",
    "bookingMargin",
    "onStaggered",
    "onStockOut",
    "placeholderImage",
    "retry",
    "nodeLossGrace",
    "unreachableGrace",
    "leaseNotice",
    "flavors",
    "kai",
)
_RETRY_FIELDS = ("base", "max", "deadline", "jitterPercent", "perMinute")
_FLAVOR_FIELDS = (
    "name",
    "provisioningClassName",
    "parameters",
    "nodeSelectorFromDetails",
    "onePodSetPerRequest",
    "verifyNodes",
    "maxNodes",
    "gpusPerNode",
    "perNode",
    "gpuTaint",
    "gpuMemory",
    "sliceNodes",
    "scarcity",
)
