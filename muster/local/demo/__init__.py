"""Plays the examples on a cluster and shows what happens: a gang, a preemption, a batch Job."""
