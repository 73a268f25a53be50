"""A gang on the real Karpenter, with Muster's placeholders and the plain way."""
