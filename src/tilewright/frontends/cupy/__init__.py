"""CuPy on the simulated GPU: CuPy's own code runs, and calls our driver and runtime in C."""
