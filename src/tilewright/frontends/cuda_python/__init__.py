"""cuda-python (`cuda.core`, `cuda.bindings`) on the simulated GPU, besides its driver, which is a library."""
