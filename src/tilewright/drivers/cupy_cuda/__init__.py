"""What CuPy sees of the simulated GPU: it keeps its own code, which calls the driver and the runtime in C."""
