"""Programs, images and node stores: all that a plane is made from, built once and kept in the cache."""
