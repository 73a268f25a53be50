"""The platform as Pulumi components: what is installed into a cluster, from what, and in which order."""
