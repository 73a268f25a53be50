"""The Pulumi provider `muster`: one resource, `muster:k8s:Bundle`, that holds many Kubernetes objects.

It is independent: it imports nothing else of the project, and nothing else imports it. The engine starts
`muster/provider/bin/pulumi-resource-muster` and speaks gRPC with it.
"""

VERSION = "0.1.0"
