"""What other people's programs see of the simulated GPU: numba-cuda's driver, so that they run without a GPU."""
