"""Triton on the simulated GPU, which runs the PTX of Triton's compiler."""
