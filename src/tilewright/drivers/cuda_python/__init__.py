"""What cuda-python (`cuda.core`, `cuda.bindings`) sees of the simulated GPU besides its driver, which is a library."""
