"""Prices of a stack's machines, read from the clouds' public lists."""
