"""The pack judges the objects that the provider applies, however a Bundle's text holds them."""

import json
from typing import Any, Final

import pytest
import yaml

from muster.policies.registered import BUNDLE, Registered, Resource
from muster.provider.manifests import read

ONE: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
QUEUE: Final[dict[str, Any]] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "all"},
    "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"]}]},
}
FORMS: Final = {
    "one object, JSON": json.dumps(QUEUE),
    "one object, YAML": yaml.safe_dump(QUEUE),
    "documents": f"---\n{yaml.safe_dump(ONE)}\n---\n{yaml.safe_dump(QUEUE)}",
    "list, JSON": json.dumps([QUEUE]),
    "list, YAML": yaml.safe_dump([QUEUE]),
    "list of lists": json.dumps([[ONE], [[QUEUE]]]),
    "kind: List": json.dumps({"apiVersion": "v1", "kind": "List", "items": [QUEUE]}),
    "kind: ClusterQueueList": yaml.safe_dump({"kind": "ClusterQueueList", "items": [QUEUE]}),
    "List in a List": json.dumps({"kind": "List", "items": [{"kind": "List", "items": [QUEUE]}]}),
    "labelled, JSON": json.dumps({"a": QUEUE}),
    "labelled, YAML": yaml.safe_dump({"a": QUEUE}),
    "labelled List": yaml.safe_dump({"a": {"kind": "List", "items": [QUEUE]}}),
    "kind twice": f"kind: X\nkind: CustomResourceDefinition\n{yaml.safe_dump(QUEUE)}",
    "kind in a comment": f"# \n---\n# kind: CustomResourceDefinition\n{yaml.safe_dump(QUEUE)}",
    "kind in a value": f"{yaml.safe_dump(QUEUE)}\nnote: |\n  a\n  kind: CustomResourceDefinition\n",
    "flow style": yaml.safe_dump(QUEUE, default_flow_style=True),
    "alias": f"- &a {json.dumps(QUEUE)}\n",
    "merge key": f"- &a {json.dumps(ONE)}\n- {{<<: *a, kind: ClusterQueue, metadata: {{name: all}}}}\n",
}


def registered(text: str) -> Registered:
    return Registered((Resource(urn="urn", type=BUNDLE, name="b", inputs={"manifests": {"key": text}}),))


@pytest.mark.parametrize("form", FORMS)
def test_the_pack_sees_every_object_that_the_provider_applies(form: str) -> None:
    applied = [item.body for item in read({"key": FORMS[form]})]
    assert "ClusterQueue/all" in {item.label for item in registered(FORMS[form]).items("ClusterQueue")}
    assert [item.body for item in registered(FORMS[form]).items()] == applied


@pytest.mark.parametrize("text", ['["kind"]', "3", "a: ["])
def test_a_text_that_the_provider_refuses_passes_no_policy(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected Kubernetes objects|neither JSON nor YAML"):
        list(registered(text).items())
