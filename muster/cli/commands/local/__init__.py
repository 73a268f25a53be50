"""`muster local`: a real Kubernetes cluster on this machine."""
