"""Sweeps: measures or predicts rates of kernels, products and peers, keeps, compares and tabulates them.

`record` defines the results, `store` keeps them in a file from which a stopped sweep resumes.
"""
