"""`muster backend`: where state and secrets are kept."""
