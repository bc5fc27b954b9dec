"""numba-cuda on the simulated GPU: its own code runs, with our driver in place of the vendor's."""
