"""The charts, CRDs and images of a stack, their sources and digests, and the publishing of Muster's own."""
