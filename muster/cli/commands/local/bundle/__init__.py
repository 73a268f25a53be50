"""`muster local bundle`: a built cache in one file."""
