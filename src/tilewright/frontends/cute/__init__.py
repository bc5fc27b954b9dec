"""CuTe DSL on the simulated GPU."""
