"""The product: dtypes, algebras, the engine, devices, kernels, products larger than memory."""
