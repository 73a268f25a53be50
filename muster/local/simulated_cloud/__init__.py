"""A simulated cloud with its autoscaler.

It serves ProvisioningRequests as GKE and cluster-autoscaler do, adds and removes nodes of the local
cluster, runs out of stock, injects faults and keeps a bill. Its decisions are pure (`actions.py`); its state
is in API objects, so that it may be killed at any moment.

Odd behaviour of the originals is kept: it was read in kubernetes/autoscaler (conditions.go,
provreq/processor.go, checkcapacity, besteffortatomic) and GoogleCloudPlatform/cluster-autoscaler
(provreqstate, reconciler, reasons). Each deviation is named where it is made.
"""
