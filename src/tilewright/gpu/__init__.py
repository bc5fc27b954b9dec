"""What kernels of a user's own may use on any GPU, real or simulated: one PTX instruction each, callable from Python.

Examples
--------
>>> from tilewright.gpu.intrinsics import records
>>> [record.name for record in records() if record.name.startswith("ldmatrix")][:2]
['ldmatrix_x1', 'ldmatrix_x2']
"""
