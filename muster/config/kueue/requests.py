"""Reads `muster:kueue.provisioningRequestConfigs`."""

from types import MappingProxyType

from muster.model.kueue import PodSetMerge, RequestConfig
from muster.model.section import Section


def parse_request_config(section: Section, name: str) -> RequestConfig | None:
    """One ProvisioningRequestConfig, in the words of Kueue's API."""
    wanted = section.text("provisioningClassName", required=True)
    retry = section.section("retryStrategy")
    has_merge = section.has("podSetMergePolicy")
    config = RequestConfig(
        name=name,
        provisioning_class=wanted or "",
        parameters=MappingProxyType(section.texts("parameters")),
        managed_resources=section.words("managedResources"),
        retries=_seconds(retry, "backoffLimitCount"),
        base=_seconds(retry, "backoffBaseSeconds"),
        most=_seconds(retry, "backoffMaxSeconds"),
        merge=section.choice("podSetMergePolicy", PodSetMerge) if has_merge else None,
        node_selector=MappingProxyType(section.texts("nodeSelector")),
    )
    section.get("podSetMergePolicy")
    retry.close()
    section.close()
    return None if wanted is None else config


def _seconds(section: Section, key: str) -> int | None:
    return section.integer(key, 0, least=0) if section.has(key) else None
