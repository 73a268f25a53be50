"""GPU clusters whose nodes appear only when a whole gang can start."""
