"""Other people's programs on the simulated GPU: what stands in for the driver and the packages that they call."""
