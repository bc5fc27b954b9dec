"""The implemented CUDA functions, under CUDA's names, in modules by subject."""
