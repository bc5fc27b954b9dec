"""Products on the host's processor: packed, skinny and small kernels emitted for its vectors, and S5's three loops."""
