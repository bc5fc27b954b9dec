"""cuda-python (`cuda.core`, `cuda.bindings`) on the simulated GPU. `frontends/libcuda` replaces its driver library."""
