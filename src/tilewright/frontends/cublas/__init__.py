"""cuBLAS on the simulated GPU: its functions are computed on the host, mostly by `tw.matmul`."""
