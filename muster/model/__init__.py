"""The domain model: clusters, pools, teams, quotas, priorities.

Uses only the standard library: no Pulumi, no Kubernetes client, no file, no network. Every other room
imports it.
"""
