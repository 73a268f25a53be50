"""Who queues and admits the work: one module a scheduler."""
