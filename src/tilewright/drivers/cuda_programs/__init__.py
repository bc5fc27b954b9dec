"""Whole CUDA programs: their source or binary, run in a process of its own beside the simulated GPU."""
