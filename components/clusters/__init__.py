"""Where the cluster comes from: one module a provider."""
