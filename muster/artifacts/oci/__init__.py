"""Images and charts in OCI registries: built, pushed, fetched. Uses only the standard library."""
