"""The catalogue: one kernel a file, in Python (numba-cuda) or CUDA C++; `catalogue` holds a record of each."""
