"""The controller's image and the charts, on their way to a cluster: muster image.

Builds for both processors, pushes to the stack's repository, writes the digest into the stack file, fetches
charts for clusters that reach no registry.
"""
