"""PTX instructions as Python functions, for a user's own kernels on any GPU, real or simulated.

Examples
--------
>>> from tilewright.gpu.intrinsics import records
>>> [record.name for record in records() if record.name.startswith("ldmatrix")][:2]
['ldmatrix_x1', 'ldmatrix_x2']
"""
