"""Programs, images and node stores of a local cluster: obtained once, then kept in the cache."""
