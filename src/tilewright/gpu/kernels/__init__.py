"""One kernel a file, in Python (numba-cuda) or CUDA C++; `tilewright.catalogue` holds a record of each."""
