"""Running translated kernels: memory, cache, host threads, launch."""
