"""The charts, CRDs and images of a stack: which, from where, at which digest; how ours are published."""
