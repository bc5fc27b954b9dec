"""Products and launches on real GPUs through cuda.core."""
