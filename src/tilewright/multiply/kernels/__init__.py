"""The kernels, each in a file, in Python (numba-cuda) or CUDA C++; `catalogue` holds a record of each."""
