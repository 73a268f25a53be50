"""The published walk-throughs, each held field by field against what the engine makes of our stack for it."""
