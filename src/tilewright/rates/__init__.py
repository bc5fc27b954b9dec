"""Sweeps of kernels, products and peers, measured or predicted; kept, compared, laid out as the sources' tables.

`record` holds what was found, `store` keeps it in a file that a stopped sweep goes on from.
"""
