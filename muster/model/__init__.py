"""The domain: clusters, pools, teams, quotas, priorities, and the manifests they mean.

Standard library alone: no Pulumi, no Kubernetes client, no file, no network. Every other room reads it.
"""
