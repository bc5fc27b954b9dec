"""numba-cuda's driver as the simulated GPU answers it, so that programs run unmodified without a GPU."""
