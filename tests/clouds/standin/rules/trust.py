"""Who a role trusts, read off its policy document."""

import json

from tests.clouds.standin.values import Inputs


def trusts(role: Inputs, service: str, *actions: str) -> bool:
    """Whether the service may do all of these with the role."""
    allowed: set[str] = set()
    for statement in statements(str(role.get("assumeRolePolicy"))):
        if statement.get("Effect") == "Allow" and service in _listed(_principal(statement)):
            allowed.update(_listed(statement.get("Action")))
    return allowed >= set(actions)


def statements(document: str) -> list[dict[str, object]]:
    """The statements of a policy document; ValueError where it is none."""
    found = json.loads(document)["Statement"]
    return list(found) if isinstance(found, list) else [found]


def _principal(statement: dict[str, object]) -> object:
    principal = statement.get("Principal")
    return principal.get("Service") if isinstance(principal, dict) else principal


def _listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
