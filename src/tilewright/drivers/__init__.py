"""The simulated GPU as programs see it: replacements for numba-cuda's driver and others, so that no GPU is needed."""
