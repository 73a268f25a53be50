"""A real Kubernetes on one Linux machine, and a simulated cloud beneath it.

`muster local up` builds what is missing, opens a network, mount and
process namespace, and starts etcd, the control plane and kubelets in it.
Nothing here knows Muster's model: a local cluster is a cluster like any other.
"""
