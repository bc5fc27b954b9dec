"""Whole CUDA programs: their source or binary runs in its own process, next to that of the simulated GPU."""
