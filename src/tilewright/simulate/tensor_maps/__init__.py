"""Tensor maps: boxes of tensors that asynchronous copies move, as CUDA's driver encodes them."""
