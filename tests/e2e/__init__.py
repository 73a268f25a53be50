"""The whole of Muster on a local plane: real Kubernetes, real Kueue, real KubeRay, real Pulumi."""
