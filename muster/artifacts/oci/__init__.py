"""Images and charts in OCI registries: put together, pushed, fetched. The standard library alone."""
