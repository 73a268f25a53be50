"""Tokens in the forms that their issuers give them today."""

import pytest

from muster.policies.credentials import in_bundles
from muster.policies.registered import BUNDLE, Registered, Resource
from muster.policies.rule import Case

DIGITS = "0123456789" * 10
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"


@pytest.mark.parametrize(
    "token",
    [
        f"github_pat_{DIGITS[:22]}_{DIGITS[:59]}",
        f"hf_{LETTERS[:34]}",
        f"nvapi-{DIGITS[:64]}",
        f"pul-{DIGITS[:40]}",
        f"AIza{DIGITS[:33]}-_",
    ],
    ids=lambda each: each[:6],
)
def test_a_token_in_a_config_map_is_found_and_not_printed(token: str) -> None:
    text = f"[{{kind: ConfigMap, metadata: {{name: settings}}, data: {{a: 'key={token};'}}}}]"
    resource = Resource(urn="urn", type=BUNDLE, name="b", inputs={"manifests": {"key": text}})
    (finding,) = in_bundles(Case(Registered((resource,)), {}))
    assert finding.message == "ConfigMap/settings contains a credential."


@pytest.mark.parametrize("word", ["hf_transfer", "pul-request", "nvapi-key", "github_pat_", "AIza"])
def test_a_prefix_alone_is_no_credential(word: str) -> None:
    text = f"{{kind: ConfigMap, metadata: {{name: settings}}, data: {{a: {word}}}}}"
    resource = Resource(urn="urn", type=BUNDLE, name="b", inputs={"manifests": {"key": text}})
    assert not list(in_bundles(Case(Registered((resource,)), {})))
