"""The whole of Muster on a local cluster: real Kubernetes, real Kueue, real KubeRay, real Pulumi."""
