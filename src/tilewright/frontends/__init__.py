"""Front ends: they run CUDA programs on the simulated GPU, and replace the driver and parts of the packages used."""
