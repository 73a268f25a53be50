"""A simulated cloud and the autoscaler that buys from it: a stand-in, and named so.

It serves ProvisioningRequests the way GKE and cluster-autoscaler do, makes
nodes of the local cluster come and go, runs out of stock, breaks on request and
keeps a bill. What it decides is pure (`decide.py`); everything that it must
remember lies in API objects, so that it may be killed at any moment.

Where the originals are odd, so is this: the behaviour was read in
kubernetes/autoscaler (conditions.go, provreq/processor.go, checkcapacity,
besteffortatomic) and GoogleCloudPlatform/cluster-autoscaler (provreqstate,
reconciler, reasons), and each deviation is named where it is made.
"""
