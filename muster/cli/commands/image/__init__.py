"""`muster image`: images and charts of a stack."""
